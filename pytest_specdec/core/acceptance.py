"""Acceptance of drafts from vLLM's counters: its figures, and whether the counters can be true at all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import ScrapeError

if TYPE_CHECKING:
    from pytest_specdec.core.samples import ServerCounters

EVERY_STEP = 0.99
"""Draft coverage from which an acceptance length tells what a step yields."""


@dataclass(frozen=True)
class Acceptance:
    """How much of what was drafted the target accepted. Fractions, never percent."""

    drafts: int
    """Steps that verified a draft; steps without one are not counted by vLLM."""
    draft_tokens: int
    accepted_tokens: int
    """Counted before an end token or ``max_tokens`` cut the last step, so it can exceed what clients received."""
    acceptance_length: float | None
    """``1 + accepted / drafts``, the bonus token included, in ``[1, K + 1]``; None without drafts."""
    acceptance_rate: float | None
    """``accepted / draft tokens``, a fraction (``vllm bench`` prints percent); None without draft tokens."""
    per_position: tuple[float, ...] | None
    """Joint: share of drafts with at least ``i + 1`` tokens accepted; 0-based, non-increasing."""
    conditional: tuple[float | None, ...] | None
    """Share accepted at position ``i`` of those accepted up to it; None where nothing came so far."""


def acceptance_of(counters: ServerCounters) -> Acceptance:
    """Acceptance figures of a scrape or of the difference of two.

    Raises:
        ScrapeError: The counters have no speculation family: acceptance is then undefined, neither 1 nor 0.
    """
    drafts, draft_tokens, accepted = counters.drafts, counters.draft_tokens, counters.accepted_tokens
    if drafts is None or draft_tokens is None or accepted is None:
        raise ScrapeError(
            "no vllm:spec_decode_* counters: this server runs without speculative decoding",
            remedy="Scrape the server that was started with --speculative-config.",
        )
    joint = conditional = None
    if drafts and counters.accepted_per_position is not None:
        joint = tuple(count / drafts for count in counters.accepted_per_position)
        reached = (drafts, *counters.accepted_per_position)
        conditional = tuple(count / before if before else None for before, count in itertools.pairwise(reached))
    return Acceptance(
        drafts=drafts,
        draft_tokens=draft_tokens,
        accepted_tokens=accepted,
        acceptance_length=1 + accepted / drafts if drafts else None,
        acceptance_rate=accepted / draft_tokens if draft_tokens else None,
        per_position=joint,
        conditional=conditional,
    )


def inconsistencies(counters: ServerCounters, k: int | None) -> list[str]:
    """What in the speculation counters cannot be true, one sentence each; empty when they agree.

    Args:
        counters: A scrape or a difference; one without speculation counters has nothing to contradict.
        k: ``num_speculative_tokens``; None takes the number of draft positions that the server counts.
    """
    drafts, draft_tokens, accepted = counters.drafts, counters.draft_tokens, counters.accepted_tokens
    if drafts is None or draft_tokens is None or accepted is None:
        return []
    positions = counters.accepted_per_position
    if k is None and positions is not None:
        k = len(positions)
    found = []
    if min(drafts, draft_tokens, accepted) < 0:
        found.append(f"a count is negative: {drafts} drafts, {draft_tokens} draft tokens, {accepted} accepted")
    if accepted > draft_tokens:
        found.append(f"{accepted} tokens were accepted, but only {draft_tokens} drafted")
    if not drafts and draft_tokens:
        found.append(f"{draft_tokens} tokens were drafted in no draft")
    if k is not None and draft_tokens > drafts * k:
        found.append(f"{draft_tokens} draft tokens are more than {drafts} drafts of at most {k} can hold")
    if k is not None and drafts > 0 and not 1 <= 1 + accepted / drafts <= k + 1:
        found.append(f"the acceptance length {1 + accepted / drafts:.3f} is outside 1 .. {k + 1}")
    if positions is not None:
        found += _position_inconsistencies(positions, drafts, accepted)
    return found


def _position_inconsistencies(positions: tuple[int, ...], drafts: int, accepted: int) -> list[str]:
    found = []
    if sum(positions) != accepted:
        found.append(f"accepted per position adds up to {sum(positions)}, but {accepted} tokens were accepted")
    reached = (drafts, *positions)
    for position, (before, count) in enumerate(itertools.pairwise(reached)):
        if count > before:
            source = "drafts" if position == 0 else f"at position {position - 1}"
            found.append(f"position {position} was accepted {count} times, more than the {before} {source}")
    return found
