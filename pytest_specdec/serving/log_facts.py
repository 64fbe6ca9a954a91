"""What the log of a server that came up says of its settings: pure functions of its lines."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.masking import MASK, is_secret
from pytest_specdec.core.server_facts import ServerFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LINE_AT_MOST = 20_000
"""Characters of a line that are read: the longest, the engine's own config, has some 6,000."""
_ARGUMENTS = re.compile(r"non-default args: (?P<dict>\{.*\})")
_ENGINE = "Initializing a V1 LLM engine"

# From the engine's line; the first that is found counts (cudagraph_mode is printed as an enum or as text).
_IN_ENGINE_LINE: tuple[tuple[str, str], ...] = (
    ("dtype", r"\bdtype=(?:torch\.)?(\w{1,30})"),
    ("max_model_len", r"\bmax_seq_len=(\d{1,12})"),
    ("tensor parallel size", r"\btensor_parallel_size=(\d{1,6})"),
    ("pipeline parallel size", r"\bpipeline_parallel_size=(\d{1,6})"),
    ("data parallel size", r"\bdata_parallel_size=(\d{1,6})"),
    ("quantization", r"\bquantization=(\w{1,40})"),
    ("enforce_eager", r"\benforce_eager=(\w{1,5})"),
    ("KV cache dtype", r"\bkv_cache_dtype=(\w{1,40})"),
    ("device", r"\bdevice_config=(\w{1,20})"),
    ("prefix caching", r"\benable_prefix_caching=(\w{1,5})"),
    ("chunked prefill", r"\benable_chunked_prefill=(\w{1,5})"),
    ("compilation mode", r"[\"']mode[\"']: <?(?:CompilationMode\.)?(\w{1,40})"),
    ("cudagraph mode", r"[\"']?cudagraph_mode[\"']?[:=] ?<?(?:CUDAGraphMode\.)?(\w{1,40})"),
)
# From any line; the last that is found counts, since vLLM changes its mind while it starts.
_IN_ANY_LINE: tuple[tuple[str, str], ...] = (
    ("KV cache tokens", r"KV cache size: ([\d,]{1,30}) tokens"),
    ("maximum concurrency", r"Maximum concurrency for [\d,]{1,30} tokens per request: ([\d.]{1,20})x"),
    ("KV blocks", r"# (?:GPU|CPU|\w{1,10}) blocks: (\d{1,15})"),
    ("attention backend", r"Using (\w{1,40}) (?:attention )?backend(?: out of|\.)"),
    ("tokens scheduled per step", r"max_num_(?:scheduled|batched)_tokens(?: is set to |=)(\d{1,12})(?: based on|\.)"),
    ("cudagraph mode", r"setting cudagraph_mode=(\w{1,40})"),
    ("cudagraph mode", r"Overriding cudagraph_mode (?:from \w{1,40} )?to (\w{1,40})"),
    ("model runner", r"using the (V1) model runner instead|Using (V2) Model Runner"),
)
_COMPILED = {
    where: tuple((name, re.compile(pattern)) for name, pattern in table)
    for where, table in (("engine", _IN_ENGINE_LINE), ("any", _IN_ANY_LINE))
}


def read_facts(lines: Sequence[str]) -> ServerFacts | None:
    """The settings in force, or None where the log says nothing of them (another version, a quiet log level).

    Args:
        lines: The log of one launch until the server was ready, without colours.
    """
    arguments: dict[str, str] = {}
    effective: dict[str, str] = {}
    for line in (line[:_LINE_AT_MOST] for line in lines):
        if not arguments and (stated := _ARGUMENTS.search(line)) is not None:
            arguments = _arguments(stated["dict"])
        if _ENGINE in line:
            _take(line, _COMPILED["engine"], effective)
        else:
            effective.update(_found(line, _COMPILED["any"]))
    if not arguments and not effective:
        return None
    return ServerFacts(arguments, {name: masked_text(value) for name, value in effective.items()})


def stated_speculation(lines: Iterable[str]) -> Mapping[str, object]:
    """The speculative config among the "non-default args"; empty where there is none."""
    for line in lines:
        stated = _ARGUMENTS.search(line[:_LINE_AT_MOST])
        if stated is not None:
            config = _literal(stated["dict"]).get("speculative_config")
            return config if isinstance(config, dict) else {}
    return {}


def _arguments(text: str) -> dict[str, str]:
    return {
        str(name): MASK if is_secret(str(name)) else masked_text(value if isinstance(value, str) else repr(value))
        for name, value in _literal(text).items()
    }


def _literal(text: str) -> dict[object, object]:
    """A printed dict; empty where it holds what only vLLM could build again."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _take(line: str, table: Iterable[tuple[str, re.Pattern[str]]], into: dict[str, str]) -> None:
    for name, value in _found(line, table):
        into.setdefault(name, value)


def _found(line: str, table: Iterable[tuple[str, re.Pattern[str]]]) -> list[tuple[str, str]]:
    return [
        (name, next(group for group in match.groups() if group))
        for name, pattern in table
        if (match := pattern.search(line)) is not None
    ]
