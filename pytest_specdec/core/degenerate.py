"""Answers that went wrong as answers: how often each server loops, is cut, says nothing, and whether the difference is chance.

Served prompts decide, not single answers: greedy rounds repeat each other, so a prompt's answers count once, and the arms
are compared by a sign test over the prompts on which they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from pytest_specdec.core.answer_form import LOOPING, SHORTEST
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import effective_size, wilson, wilson_needs
from pytest_specdec.core.validity import made_up
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.run_table import RunTable
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.core.verdict import Requirement

CHANCE = 0.01
"""Differences that chance makes more often than this are not reported; there are several rows, and they are not gates."""


@dataclass(frozen=True)
class Defect:
    """One way in which answers go wrong, on both servers."""

    name: str
    baseline: float
    """Share of answers."""
    specdec: float
    p_value: float
    """Of the sign test over prompts that the servers differ on."""

    @property
    def significant(self) -> bool:
        """Whether the servers differ by more than chance."""
        return self.p_value < CHANCE


_DEFECTS: Mapping[str, Callable[[RunTable], Floats]] = {
    "loop": lambda table: np.where(_looked_at(table), table.real("form.repeated_share") >= LOOPING, np.nan),
    "are cut at max_tokens": lambda table: _cut(table).astype(np.float64),
    "are blank": lambda table: table.real("form.blank"),
    "hold damaged text": lambda table: table.real("form.damaged"),
    "begin as JSON and are none": lambda table: 1 - table.real("form.parses"),
    "do not have the form that was asked for": lambda table: 1 - table.real("form.as_asked"),
    "call a tool": lambda table: table.real("form.calls"),
}
"""Of each request 1 where it went wrong in that way, 0 where not, NaN where nobody could tell."""


def _looked_at(table: RunTable) -> NDArray[np.bool_]:
    return ~np.isnan(table.real("form.blank"))


def _cut(table: RunTable) -> NDArray[np.bool_]:
    return np.array([reason == "length" for reason in table.column("finish_reason")], dtype=np.bool_)


ORDINARY = ("are cut at max_tokens", "call a tool")
"""Those that are none while both servers do it alike."""


def defects_of(comparison: Comparison) -> tuple[Defect, ...]:
    """Every kind of defect that could be looked for, in a fixed order."""
    found = []
    for name, is_so in _DEFECTS.items():
        if name == "are cut at max_tokens" and comparison.load.ignore_eos:
            continue  # all are, by request
        base, spec = (_by_prompt(comparison, arm, is_so) for arm in ("baseline", "specdec"))
        _, left, right = np.intersect1d(base.prompts, spec.prompts, assume_unique=True, return_indices=True)
        if len(left):
            found.append(Defect(name, base.share, spec.share, _sign_test(base.shares[left], spec.shares[right])))
    return tuple(found)


def defect_notes(comparison: Comparison) -> tuple[str, ...]:
    """What every report must say: kinds of defects that only one server has more of; none where acceptance is made up, and answers with it."""
    if made_up(comparison):
        return ()
    return tuple(
        f"{100 * one.specdec:.1f} % of the speculating server's answers {one.name}, {100 * one.baseline:.1f} % of the baseline's "
        f"(chance: {one.p_value:.2g}): speculation should not change that; lossless=True compares the answers themselves"
        for one in defects_of(comparison)
        if one.significant
    )


def max_loop_share(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of the speculating server's answers that end in a loop; Wilson over as many prompts as they are worth.

    Raises:
        CannotMeasure: No answer tells, since token ids are missing.
    """
    comparison = evidence.comparison
    runs = comparison.arm("specdec")
    rows = [run.table.ok & _looked_at(run.table) for run in runs]
    if not any((run.table.chunk_tokens.told & row).any() for run, row in zip(runs, rows, strict=True)):
        raise CannotMeasure(
            "max_loop_share: loops are told by token ids, and there are none",
            remedy="Use a vLLM that knows return_token_ids, and no proxy that drops it.",
        )
    longest = max(int(run.table.tokens[row].max(initial=0)) for run, row in zip(runs, rows, strict=True))
    if longest < SHORTEST and any((_cut(run.table) & row).any() for run, row in zip(runs, rows, strict=True)):
        raise CannotMeasure(
            f"max_loop_share: all answers are cut after {longest} tokens, before a loop could be told",
            remedy=f"Raise max_tokens to {2 * SHORTEST} or more.",
        )
    found = _by_prompt(comparison, "specdec", _DEFECTS["loop"])
    counts, hits = found.counts[None, :], found.hits[None, :]
    share = found.share
    worth = min(effective_size(hits / counts, np.ones_like(hits), evidence.level), hits.shape[1])
    interval = wilson(share, worth, evidence.level, of="prompts")
    base = _by_prompt(comparison, "baseline", _DEFECTS["loop"])
    return Estimate(
        value=share,
        low=interval.low,
        high=interval.high,
        level=evidence.level,
        samples=int(found.counts.sum()),
        basis=interval.basis,
        limited_by="requests",
        needed_requests=wilson_needs(1 - requirement.required, evidence.level)
        if share <= requirement.required
        else None,
        remark=f"the baseline loops in {100 * base.share:.1f} % of its answers" if len(base.prompts) else "",
    )


@dataclass(frozen=True)
class _ByPrompt:
    """Answers by prompt; arrays of shape (prompts,)."""

    prompts: Ints
    """Each once, rising."""
    hits: Floats
    counts: Floats

    @property
    def shares(self) -> Floats:
        """Of each prompt's answers."""
        return self.hits / self.counts

    @property
    def share(self) -> float:
        """Of all answers."""
        return float(self.hits.sum() / self.counts.sum()) if len(self.counts) else 0.0


def _by_prompt(comparison: Comparison, arm: Arm, is_so: Callable[[RunTable], Floats]) -> _ByPrompt:
    tables = [run.table for run in comparison.arm(arm)]
    if not tables:
        return _ByPrompt(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    values = np.concatenate([is_so(table)[table.ok] for table in tables])
    told = ~np.isnan(values)
    contents = np.concatenate([table.content[table.ok] for table in tables])[told]
    prompts, place = np.unique(contents, return_inverse=True)
    counts = np.bincount(place, minlength=len(prompts)).astype(np.float64)
    hits = np.bincount(place, weights=values[told], minlength=len(prompts)).astype(np.float64)
    return _ByPrompt(prompts, hits, counts)


def _sign_test(base: Floats, spec: Floats) -> float:
    """Two-sided, exact; of shares of the same prompts."""
    more, differing = int((spec > base).sum()), int((spec != base).sum())
    if not differing:
        return 1.0
    least = min(more, differing - more)
    return min(1.0, 2 * float(special.bdtr(least, differing, 0.5)))
