"""vLLM's server flags as words of a command line: how ``serve`` becomes words, and which option a word names.

vLLM's parser takes ``--max_model_len 8`` for ``--max-model-len 8``, ``--max-model-len=8``, and ``--a-config.key value`` for one
member of a JSON option, so all of these spellings are one option here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PER_REQUEST = "per-request-spec-decode-metrics"
"""With it each answer carries its own acceptance; only a server that speculates takes it."""
API_SERVERS = "api-server-count"
"""How many processes answer HTTP; only ``vllm serve`` knows it, the module that it replaced parses and ignores it."""
SINCE = {PER_REQUEST: "0.29.0"}
"""Options that older releases of those supported refuse, and the release that brought them."""
_SHORT = {
    "ac": "attention-config",
    "asc": API_SERVERS,
    "cc": "compilation-config",
    "dcp": "decode-context-parallel-size",
    "dp": "data-parallel-size",
    "dpl": "data-parallel-size-local",
    "ep": "enable-expert-parallel",
    "pcp": "prefill-context-parallel-size",
    "pp": "pipeline-parallel-size",
    "q": "quantization",
    "sc": "speculative-config",
    "tp": "tensor-parallel-size",
}
"""Options that also go by a short name with one hyphen."""
_OPTION = re.compile(r"(?P<hyphens>--?)(?P<name>[A-Za-z][^=.]*)")


def words_of(serve: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """The words that ``serve`` stands for.

    A list is taken as it is. In a mapping, underscores of a key become hyphens (not behind a dot, where JSON begins); true is
    ``--flag``, false ``--no-flag``, a list repeats its values behind one flag, and an object becomes JSON.
    """
    if not hasattr(serve, "items"):
        return tuple(serve)
    words: list[str] = []
    for key, value in serve.items():
        words += _flag_words(key, value)
    return tuple(words)


def _flag_words(key: str, value: Any) -> list[str]:
    head, dot, member = key.partition(".")
    flag = flag_of(head) + dot + member
    if isinstance(value, bool) and not dot:
        return [flag] if value else [f"--no-{flag.lstrip('-')}"]
    if isinstance(value, list) and not dot:
        return [flag, *map(_value_word, value)]
    word = _value_word(value)
    # What starts with a hyphen (-1e-05 too) would be taken for the next option.
    return [f"{flag}={word}"] if word.startswith("-") else [flag, word]


def flag_of(key: str) -> str:
    """The flag for a key of ``serve``: ``max_model_len`` is ``--max-model-len``, and ``tp`` the long name of ``-tp``."""
    name = key.replace("_", "-")
    return name if name.startswith("-") else f"--{_SHORT.get(name, name)}"


def _value_word(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def compact_json(data: Any) -> str:
    """One spelling for equal data: keys sorted, no blanks, ASCII only."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def option_of(word: str) -> str | None:
    """The long name of the option that a word sets, without hyphens and without ``no-``; None for a value.

    ``--gpu_memory_utilization=0.5`` gives ``gpu-memory-utilization``, ``-tp`` gives ``tensor-parallel-size``.
    """
    found = _OPTION.match(word)
    if found is None or any(blank in found["name"] for blank in " \t\n"):
        return None
    name = found["name"].replace("_", "-")
    if found["hyphens"] == "-":
        return _SHORT.get(name, name)
    return name.removeprefix("no-")


def options_in(words: Iterable[str]) -> frozenset[str]:
    """The options that any of the words sets."""
    return frozenset(name for name in map(option_of, words) if name is not None)


def value_of(words: Iterable[str], option: str) -> str | None:
    """The value that an option has on a command line, in any spelling; the last one counts, as in vLLM; None without one."""
    value = None
    for group in grouped(words):
        if option_of(group[0]) == option and "." not in group[0].partition("=")[0]:  # --json.key=value is a part of one
            _, equals, joined = group[0].partition("=")
            value = joined if equals else (group[1] if len(group) > 1 else None)
    return value


def grouped(words: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Each option with the values that follow it; words before the first option stand alone."""
    group: list[str] = []
    for word in words:
        if option_of(word) is not None and group:
            yield tuple(group)
            group = []
        group.append(word)
    if group:
        yield tuple(group)


def speculates(option: str) -> bool:
    """Whether an option switches speculation on: ``speculative-config``, ``spec-method`` and the like, abbreviated or not."""
    # The one other option of vLLM that begins like this is --specialize-active-lora.
    return option.startswith("spec") and not option.startswith("speci")
