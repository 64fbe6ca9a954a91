"""Releases of vLLM that cannot capture full CUDA graphs with a schedule of K, and what to set for them.

vLLM 0.26.0 derives the lengths of the *draft's* decode graphs from the schedule as if they were the target's, ``K + 1 - largest K``:
0 or less for every smaller K, so that a draft that runs token by token ends the start with ``ZeroDivisionError`` or an assertion
(``vllm/v1/worker/gpu/cudagraph_utils.py``; seen on an H200). 0.32.0 leaves the draft's graphs alone. Graphs in pieces do not have
this step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.server_flags import options_in, words_of
from pytest_specdec.core.vllm_versions import at_least

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SINCE, _MENDED = "0.26.0", "0.32.0"
_TOKEN_BY_TOKEN = ("eagle", "eagle3", "mtp", "draft_model")
_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
PIECES = {"compilation_config.cudagraph_mode": "PIECEWISE"}
"""For ``serve_specdec``."""


def cannot_capture(
    method: str | None,
    version: str | None,
    schedule: Sequence[Sequence[int]],
    *,
    flags: Sequence[str],
    env: Mapping[str, str],
) -> str:
    """Why the speculating server would not come up with a schedule; empty where it does, or where that is not known.

    Args:
        method: Of speculation.
        version: Of vLLM.
        schedule: Entries of first batch size, last batch size, K.
        flags: Words of the speculating server's command line.
        env: Its environment.
    """
    affected = at_least(version, _SINCE) and not at_least(version, _MENDED) and method in _TOKEN_BY_TOKEN
    varies = len({entry[-1] for entry in schedule}) > 1
    if not (affected and varies) or env.get(_RUNNER) == "0" or _chooses_graphs(flags):
        return ""
    return f"vLLM {version} cannot capture full CUDA graphs for a draft whose K depends on the batch size"


def _chooses_graphs(flags: Sequence[str]) -> bool:
    return "enforce-eager" in options_in(flags) or any("cudagraph_mode" in word.replace("-", "_") for word in flags)


def in_pieces(serve_specdec: Any) -> dict[str, Any] | list[str]:
    """``serve_specdec`` with graphs in pieces, in the form that it has."""
    if isinstance(serve_specdec, list):
        return [*serve_specdec, *words_of(PIECES)]
    return {**(serve_specdec or {}), **PIECES}
