"""vLLM's speculation of single requests, as GuideLLM and AIPerf pass it on (``--per-request-spec-decode-metrics``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from pytest_specdec.core.samples import RequestSpecStats, ServerCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

WHERE_FROM = "a vLLM that was started with --per-request-spec-decode-metrics"


class RequestStats(BaseModel):
    """Of one request."""

    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_steps: int
    num_spec_tokens: int | None = None
    per_step_accepted: list[int] | None = None
    acceptance_histogram: list[int] | dict[int, int] | None = None
    """Steps by how many draft tokens they accepted."""

    def stats(self) -> RequestSpecStats:
        """In our terms."""
        return RequestSpecStats(
            drafts=self.num_spec_steps,
            draft_tokens=self.num_draft_tokens,
            accepted_tokens=self.num_accepted_draft_tokens,
            accepted_per_step=tuple(self.per_step_accepted) if self.per_step_accepted is not None else None,
        )

    def reached(self, position: int) -> int:
        """Steps that accepted the token at a position, and so all before it."""
        table = self.acceptance_histogram or []
        rows = table.items() if isinstance(table, dict) else enumerate(table)
        return sum(steps for accepted, steps in rows if accepted > position)


def counters_of(requests: Sequence[RequestStats | None]) -> ServerCounters:
    """The sums over all requests; speculation is unknown where one of them does not tell."""
    told = [one for one in requests if one is not None]
    if not told or len(told) < len(requests):
        return ServerCounters()
    k = max(one.num_spec_tokens or 0 for one in told)
    by_position = k and all(one.acceptance_histogram is not None for one in told)
    return ServerCounters(
        drafts=sum(one.num_spec_steps for one in told),
        draft_tokens=sum(one.num_draft_tokens for one in told),
        accepted_tokens=sum(one.num_accepted_draft_tokens for one in told),
        accepted_per_position=tuple(sum(one.reached(i) for one in told) for i in range(k)) if by_position else None,
    )
