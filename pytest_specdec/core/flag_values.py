"""Keys of ``serve`` that nearly are a common flag of vLLM, and switches that were given a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.server_flags import flag_of, option_of
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SWITCHES = (
    "async-scheduling",
    "disable-log-requests",
    "enable-chunked-prefill",
    "enable-expert-parallel",
    "enable-log-requests",
    "enable-lora",
    "enable-prefix-caching",
    "enable-sleep-mode",
    "enforce-eager",
    "trust-remote-code",
)
"""Flags without a value in every supported release: ``--enforce-eager`` or ``--no-enforce-eager``."""
_WITH_VALUE = (
    "attention-backend",
    "block-size",
    "chat-template",
    "compilation-config",
    "cpu-offload-gb",
    "data-parallel-size",
    "download-dir",
    "dtype",
    "generation-config",
    "gpu-memory-utilization",
    "hf-overrides",
    "kv-cache-dtype",
    "kv-cache-memory-bytes",
    "load-format",
    "logprobs-mode",
    "max-cudagraph-capture-size",
    "max-logprobs",
    "max-model-len",
    "max-num-batched-tokens",
    "max-num-seqs",
    "mm-processor-kwargs",
    "num-gpu-blocks-override",
    "override-generation-config",
    "pipeline-parallel-size",
    "quantization",
    "reasoning-parser",
    "revision",
    "scheduling-policy",
    "seed",
    "swap-space",
    "tensor-parallel-size",
    "tokenizer",
    "tokenizer-mode",
    "tool-call-parser",
)
_NEAR = 0.85
"""Likeness from which a key is a slip; flags that exist and are not listed here are less alike, or begin like their kin."""
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_SHORT_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32"}
_TRUE, _FALSE = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def flag_value_problems(key: str, flags: Mapping[str, Any]) -> Iterator[Problem]:
    """What is odd about the flags of ``serve`` or ``serve_specdec``.

    Args:
        key: Which of the two.
        flags: As they stand in the file.
    """
    for name, value in flags.items():
        option = option_of(flag_of(name))
        if option is None:
            continue
        if option in _SWITCHES and "." not in name:
            yield from _switch_problems((key, name), value)
        elif option == "dtype" and isinstance(value, str) and value not in _DTYPES:
            near = _SHORT_DTYPES.get(value.lower()) or did_you_mean(value, _DTYPES)
            what = f'"{value}" is none of {", ".join(_DTYPES)}' + (f"; did you mean {near}?" if near else "")
            yield Problem((key, name), what, "vLLM would exit.")
        elif option not in _WITH_VALUE and (meant := _meant(option)) is not None:
            what = f"is no common flag of vLLM; did you mean {meant.replace('-', '_')}?"
            yield Problem((key, name), what, "vLLM exits when it does not know a flag.", "warning")


def _switch_problems(keys: tuple[str, str], value: Any) -> Iterator[Problem]:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return
    text = str(value).strip().lower()
    meant = "true" if text in _TRUE else "false" if text in _FALSE else "true or false"
    shown = f'"{value}"' if isinstance(value, str) else value
    yield Problem(
        keys, f"{shown} is a value, and the flag is a switch: vLLM would exit", f"Write {meant}, without quotes."
    )


def _meant(option: str) -> str | None:
    """The common flag that a slip was meant to be; a whole word more or less (max-num-partial-prefills) is no slip."""
    near = did_you_mean(option, (*_SWITCHES, *_WITH_VALUE), cutoff=_NEAR)
    letters = sorted(option.replace("-", ""))
    if near is None or abs(len(letters) - len(near.replace("-", ""))) > 3:  # noqa: PLR2004 - letters left out or doubled
        return None
    return near
