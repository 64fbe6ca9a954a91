"""Servers that others use while they are measured: what of a run is this client's own, told by its own streams.

The server's counters hold everybody's requests and cannot be told apart. What they are needed for beside times are decode
steps and acceptance: a chunk after an answer's first is a decode step, which accepted all its tokens but one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.samples import ServerCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.samples import ArmRun, RequestSample

ALLOWANCE = "foreign-traffic"
"""As ``--specdec-allow`` and ``measure: {allow: [...]}`` have it."""
NOTE = (
    "foreign traffic was allowed: others could use the servers meanwhile, so tokens, steps and acceptance are counted from this "
    "client's own streams, and times hold what the others cost"
)
REMEDY = (
    "Nothing but the gate may use a server while it measures. Of servers that run already (--specdec-attach) others may, where "
    f"--specdec-allow={ALLOWANCE} says so."
)


def own_run(run: ArmRun, k: int | None, *, drafts_each_step: bool) -> ArmRun:
    """The run with counters of its own requests alone; what the server counted stays beside them.

    Of drafts the server's figures per request tell all, where it was started with ``--per-request-spec-decode-metrics``. Else
    the stream tells what was delivered, which is what was accepted but for the few tokens that the end of an answer cuts off.

    Args:
        run: As measured.
        k: Tokens drafted per step; None where the config leaves it to vLLM: as many as the server has positions.
        drafts_each_step: The proposer is known to draft at every decode step, K tokens. If not, nobody can tell from a stream
            whether a step that delivered one token had drafted, and without figures per request drafts are None.
    """
    successes = run.successes
    speculates = run.counters.drafts is not None
    k = k or len(run.counters.accepted_per_position or ())
    steps = _steps(successes, k if speculates else 0)
    counters = ServerCounters(
        generation_tokens=sum(sample.completion_tokens for sample in successes),
        finished_requests=len(successes),
        decode_steps=None if steps is None else len(steps),
    )
    if speculates and successes and all(sample.spec is not None for sample in successes):
        counters = _with_figures_per_request(counters, successes, k)
    elif speculates and steps is not None and drafts_each_step:
        counters = replace(
            counters,
            drafts=len(steps),
            draft_tokens=k * len(steps),
            accepted_tokens=sum(steps) - len(steps),
            accepted_per_position=tuple(sum(tokens > i + 1 for tokens in steps) for i in range(k)),
        )
    return replace(run, counters=counters, server_counters=run.counters)


def _steps(samples: Sequence[RequestSample], k: int) -> list[int] | None:
    """Tokens of every decode step; None where streams do not tell, or bundled steps: more tokens than one can deliver."""
    steps: list[int] = []
    for sample in samples:
        if sample.chunk_tokens is None:
            return None
        steps += sample.chunk_tokens[1:]
    return steps if all(1 <= tokens <= k + 1 for tokens in steps) else None


def _with_figures_per_request(counters: ServerCounters, samples: Sequence[RequestSample], k: int) -> ServerCounters:
    told = [sample.spec for sample in samples if sample.spec is not None]
    lists = [one.accepted_per_step for one in told]
    by_position = tuple(sum(count > i for one in lists for count in one or ()) for i in range(k))
    return replace(
        counters,
        drafts=sum(one.drafts for one in told),
        draft_tokens=sum(one.draft_tokens for one in told),
        accepted_tokens=sum(one.accepted_tokens for one in told),
        accepted_per_position=by_position if None not in lists else None,
    )
