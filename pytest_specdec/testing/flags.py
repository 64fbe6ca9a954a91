"""Which of vLLM's flags the stand-in server heeds; the others are accepted and ignored, as long as vLLM still knows them."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

_PER_REQUEST_METRICS_SINCE = (0, 29)
_SPECULATION_SHORTHANDS_SINCE = (0, 22)
_GONE = (
    "--speculative-model",
    "--num-speculative-tokens",
    "--ngram-prompt-lookup-max",
    "--ngram-prompt-lookup-min",
    "--speculative-disable-by-batch-size",
)
"""Flags of vLLM before 0.9, refused since."""


@dataclass(frozen=True)
class Launch:
    """How the server was started."""

    model: str
    served_name: str
    host: str
    port: int
    speculative_config: dict[str, Any] | None
    max_model_len: int
    max_num_seqs: int
    prefix_caching: bool
    sleep_mode: bool
    log_stats: bool
    per_request_timing: bool
    per_request_speculation: str
    """``none``, ``summary`` or ``detailed``."""
    seed: int
    given: dict[str, Any]
    """Every flag as it was given."""

    @property
    def arm(self) -> str:
        """Which sub-object of the knobs holds."""
        return "baseline" if self.speculative_config is None else "specdec"

    @property
    def has_schedule(self) -> bool:
        """Whether K depends on the batch size."""
        return "num_speculative_tokens_per_batch_size" in (self.speculative_config or {})

    @property
    def configured_k(self) -> int | None:
        """``num_speculative_tokens`` of the config, in any spelling that vLLM accepts."""
        config = self.speculative_config or {}
        value = config.get("num_speculative_tokens", config.get("num-speculative-tokens"))
        return None if value is None else int(float(value))


def parse_flags(argv: Sequence[str], *, version: str) -> Launch:
    """Read the command line; exits with status 2, as vLLM does, on flags that ``version`` does not have."""
    parser = argparse.ArgumentParser(prog="api_server.py", allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", "--served_model_name", nargs="+")
    parser.add_argument("--speculative-config", "--speculative_config", "-sc")
    parser.add_argument("--max-model-len", "--max_model_len", default="8192")
    parser.add_argument("--max-num-seqs", "--max_num_seqs", type=int, default=256)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--enable-sleep-mode", action="store_true")
    parser.add_argument("--disable-log-stats", action="store_true")
    parser.add_argument("--enable-per-request-metrics", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    if version_tuple(version) >= _PER_REQUEST_METRICS_SINCE:
        choices = ["none", "summary", "detailed"]
        parser.add_argument("--per-request-spec-decode-metrics", choices=choices, default="none")
    if version_tuple(version) >= _SPECULATION_SHORTHANDS_SINCE:
        parser.add_argument("--spec-method")
        parser.add_argument("--spec-model")
        parser.add_argument("--spec-tokens", type=int)
    values, others = parser.parse_known_args(list(argv))
    _refuse_unknown_to_version(parser, others, version)
    model = values.model or _positional_model(others)
    if not model:
        parser.error("the following arguments are required: --model")
    names = values.served_model_name or [model]
    return Launch(
        model=model,
        served_name=names[0],
        host=values.host,
        port=values.port,
        speculative_config=_speculative_config(parser, values),
        max_model_len=_length(values.max_model_len),
        max_num_seqs=values.max_num_seqs,
        prefix_caching=values.enable_prefix_caching,
        sleep_mode=values.enable_sleep_mode,
        log_stats=not values.disable_log_stats,
        per_request_timing=values.enable_per_request_metrics,
        per_request_speculation=getattr(values, "per_request_spec_decode_metrics", "none"),
        seed=values.seed,
        given=_given(argv),
    )


def version_tuple(version: str) -> tuple[int, ...]:
    """``0.26.0`` as numbers, anything after the first odd part left out."""
    parts: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def _refuse_unknown_to_version(parser: argparse.ArgumentParser, others: list[str], version: str) -> None:
    wrong = list(_GONE)
    if version_tuple(version) < _PER_REQUEST_METRICS_SINCE:
        wrong.append("--per-request-spec-decode-metrics")
    if version_tuple(version) < _SPECULATION_SHORTHANDS_SINCE:
        wrong += ["--spec-method", "--spec-model", "--spec-tokens"]
    for index, flag in enumerate(others):
        if flag.replace("_", "-").partition("=")[0] in wrong:
            value = others[index + 1 : index + 2]
            parser.error("unrecognized arguments: " + " ".join([flag, *value]))


def _positional_model(others: list[str]) -> str | None:
    """``serve M`` and a bare ``M``, as ``vllm serve`` takes them."""
    words = others[1:] if others[:1] == ["serve"] else others
    return words[0] if words and not words[0].startswith("-") else None


def _speculative_config(parser: argparse.ArgumentParser, values: argparse.Namespace) -> dict[str, Any] | None:
    if values.speculative_config is None:
        shorthand = {
            "method": getattr(values, "spec_method", None),
            "model": getattr(values, "spec_model", None),
            "num_speculative_tokens": getattr(values, "spec_tokens", None),
        }
        return {name: value for name, value in shorthand.items() if value is not None} or None
    try:
        config = json.loads(values.speculative_config)
    except ValueError:
        _wrong_config(parser, values.speculative_config)
    if config is None:
        return None
    if not isinstance(config, dict):
        _wrong_config(parser, values.speculative_config)
    return config


def _wrong_config(parser: argparse.ArgumentParser, text: str) -> NoReturn:
    parser.error(f"argument --speculative-config/-sc: Value {text} cannot be converted to <function loads>.")


def _length(text: str) -> int:
    """``8192``, ``8k`` or ``auto``."""
    units = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
    if text[-1:] in units and text[:-1].isdigit():
        return int(text[:-1]) * units[text[-1]]
    return int(text) if text.isdigit() else 8192


def _given(argv: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, has_value, value = word[2:].replace("-", "_").partition("=")
            given[name] = value if has_value else True
        elif name:
            given[name] = word if given[name] is True else f"{given[name]} {word}"
    return given
