"""Acceptance of each class of prompts (code, chat, ...) with intervals that resample the class's own prompts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_specdec.core.class_sums import ClassSums, class_sums, classes_answered, classes_of
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.gains import time_gain
from pytest_specdec.core.intervals import Interval, ratio_over_prompts, widest, wilson
from pytest_specdec.core.verdict import Estimate, Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.samples import Comparison

T = TypeVar("T")
_NOTHING = 0.01
"""Tokens per step this close to 1 are no success of any draft; making steps add up to the counters' shifts them a little."""

FEWEST_PROMPTS = 8
"""Different prompts below which a class is not judged: too few to know how much its prompts differ."""


@dataclass(frozen=True)
class ClassAcceptance:
    """One class of a comparison; an estimate is None where it is undefined or nothing tells it."""

    name: str
    share: float
    """Of the traffic where the workload states it (``WorkloadRecord.weights``), else of the requests that were sent."""
    prompts: int
    """Different ones that were sent."""
    requests: int
    """Over all rounds."""
    acceptance_length: Estimate | None
    """``1 + accepted / drafts``."""
    acceptance_rate: Estimate | None
    tokens_per_step: Estimate | None
    draft_coverage: Estimate | None
    """None, too, where the stream does not show which steps drafted."""
    per_position: tuple[Estimate, ...]
    """Joint, from position 0; empty where nothing tells."""
    tpot_gain: Estimate | None
    """Paired by request, as the objective of that name."""
    unknown: str = ""
    """Why there is no acceptance length."""

    @property
    def enough(self) -> bool:
        """Whether there are prompts enough to judge the class."""
        return self.prompts >= FEWEST_PROMPTS


def by_class(comparison: Comparison, level: float | None = None) -> tuple[ClassAcceptance, ...]:
    """Every class, the largest share first; empty where no prompt has a class. Never raises: reports need what there is.

    Args:
        comparison: At least one round of the speculating server.
        level: Of the intervals; None takes the load's confidence.
    """
    names = classes_of(comparison)
    if not names:
        return ()
    evidence = Evidence(comparison, level or comparison.load.confidence)
    shares = shares_of(comparison)
    try:
        sums = {one.name: one for one in class_sums(evidence)}
        unknown = ""
    except CannotMeasure as error:
        sums, unknown = {}, error.what
    classes = [_class(name, shares.get(name, 0.0), sums.get(name), unknown, evidence) for name in names]
    return tuple(sorted(classes, key=lambda one: (-one.share, one.name)))


def shares_of(comparison: Comparison) -> Mapping[str, float]:
    """Share of each class: as the workload states it, else of the requests sent; sums to 1 over the measured classes."""
    sent = Counter(classes_answered(comparison).tolist())
    stated = comparison.workload.weights or {}
    shares = {name: stated[name] for name in sent if name in stated} if stated else {}
    if len(shares) < len(sent):  # weights of other classes than those measured say nothing about these
        shares = {name: float(count) for name, count in sent.items()}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def class_length(sums: ClassSums, evidence: Evidence) -> Estimate:
    """``1 + accepted / drafts`` of the class.

    Raises:
        CannotMeasure: It drafted nothing, or acceptance is not the draft's own.
    """
    _check_drafts(sums, evidence)
    value, interval = ratio_over_prompts(sums.accepted, sums.drafts, evidence.level)
    if sums.drafts_between is not None:
        interval = _whatever_drafted(sums, evidence.level)
    most = _positions(evidence)
    rate = value / most
    interval = interval if 0 < rate < 1 else widest(interval, _binomial(rate, sums, evidence).moved(0, scale=most))
    return _estimate(1 + value, interval.moved(1).clipped(1.0, 1.0 + most), sums, evidence)


def class_rate(sums: ClassSums, evidence: Evidence) -> Estimate:
    """``accepted / draft tokens`` of the class.

    Raises:
        CannotMeasure: As :func:`class_length`, or the stream does not show which steps drafted.
    """
    _check_drafts(sums, evidence)
    _check_known(sums)
    value, interval = ratio_over_prompts(sums.accepted, sums.draft_tokens, evidence.level)
    interval = interval if 0 < value < 1 else widest(interval, _binomial(value, sums, evidence))
    return _estimate(value, interval.clipped(0.0, 1.0), sums, evidence)


def class_tokens_per_step(sums: ClassSums, evidence: Evidence) -> Estimate:
    """Tokens after each request's first, per decode step of the class.

    Raises:
        CannotMeasure: The server does not count steps, or merges them in the stream.
    """
    steps = _steps(sums)
    value, interval = ratio_over_prompts(sums.later_tokens, steps, evidence.level)
    if abs(value - 1) < _NOTHING:  # accepted in no prompt: their number sets the width
        few = wilson(0.0, sums.prompts, evidence.level, of="prompts")
        interval = widest(interval, few.moved(1, scale=_positions(evidence)))
    longest = max(1.0 + _positions(evidence), value)
    return _estimate(value, interval.clipped(min(1.0, value), longest), sums, evidence)


def class_coverage(sums: ClassSums, evidence: Evidence) -> Estimate:
    """Drafting steps per decode step of the class.

    Raises:
        CannotMeasure: Steps are not told, or which of them drafted.
    """
    steps = _steps(sums)
    _check_known(sums)
    value, interval = ratio_over_prompts(sums.drafts, steps, evidence.level)
    return _estimate(min(value, 1.0), interval.clipped(0.0, 1.0), sums, evidence)


def class_positions(sums: ClassSums, evidence: Evidence) -> tuple[Estimate, ...]:
    """Joint acceptance at each position of the class.

    Raises:
        CannotMeasure: As :func:`class_rate`.
    """
    _check_drafts(sums, evidence)
    _check_known(sums)
    found = []
    for reached in sums.reached:
        value, interval = ratio_over_prompts(reached, sums.drafts, evidence.level)
        interval = widest(interval, _binomial(value, sums, evidence))
        found.append(_estimate(value, interval.clipped(0.0, 1.0), sums, evidence))
    return tuple(found)


def class_gain(name: str, evidence: Evidence) -> Estimate:
    """TPOT gain over the class's requests.

    Raises:
        CannotMeasure: As for the whole.
    """
    return time_gain(Evidence(evidence.comparison, evidence.level, of_class=name), Requirement("tpot_gain", 0.0))


def prompts_of(comparison: Comparison, name: str) -> Ints:
    """Which prompts of a class the speculating server answered, one for each answer."""
    tables = [run.table for run in comparison.arm("specdec")]
    return np.concatenate([table.prompt[table.ok & (table.classes == name)] for table in tables])


def _class(name: str, share: float, sums: ClassSums | None, unknown: str, evidence: Evidence) -> ClassAcceptance:
    prompts = prompts_of(evidence.comparison, name)
    if sums is not None:
        try:
            _check_drafts(sums, evidence)
        except CannotMeasure as error:
            unknown = error.what
    return ClassAcceptance(
        name=name,
        share=share,
        prompts=len(np.unique(prompts)),
        requests=len(prompts),
        acceptance_length=_told(class_length, sums, evidence),
        acceptance_rate=_told(class_rate, sums, evidence),
        tokens_per_step=_told(class_tokens_per_step, sums, evidence),
        draft_coverage=_told(class_coverage, sums, evidence),
        per_position=_told(class_positions, sums, evidence) or (),
        tpot_gain=_gain_or_none(name, evidence),
        unknown=unknown,
    )


def _told(figure: Callable[[ClassSums, Evidence], T], sums: ClassSums | None, evidence: Evidence) -> T | None:
    try:
        return None if sums is None else figure(sums, evidence)
    except CannotMeasure:
        return None


def _gain_or_none(name: str, evidence: Evidence) -> Estimate | None:
    try:
        return class_gain(name, evidence)
    except CannotMeasure:
        return None


def _check_drafts(sums: ClassSums, evidence: Evidence) -> None:
    _ = evidence.acceptance  # raises where there is none to speak of
    if not sums.drafts.sum():
        raise CannotMeasure(
            f"class {sums.name!r}: no step drafted, so its acceptance is undefined",
            remedy="Judge its tokens per step (min_class_tokens_per_step), which count steps without a draft too.",
        )


def _check_known(sums: ClassSums) -> None:
    if sums.drafts_between is not None:
        raise CannotMeasure(
            f"class {sums.name!r}: the stream does not show which of its steps drafted",
            remedy="vLLM 0.30 and later tells it per request.",
        )


def _steps(sums: ClassSums) -> Floats:
    if sums.steps is None or not sums.steps.sum():
        raise CannotMeasure(
            f"class {sums.name!r}: its decode steps are unknown: the server does not count them, or merged them in the stream",
            remedy="Measure classes at a lower concurrency; remove --disable-log-stats.",
        )
    return sums.steps


def _positions(evidence: Evidence) -> float:
    """Most tokens that a draft can have accepted."""
    counted = evidence.counters.accepted_per_position
    if counted:
        return float(len(counted))
    drafts, tokens = evidence.counters.drafts, evidence.counters.draft_tokens
    return tokens / drafts if drafts and tokens else 1.0


def _whatever_drafted(sums: ClassSums, level: float) -> Interval:
    """Between the ends for the most and the fewest drafts that the class can have made."""
    fewest, most = sums.drafts_between or (0.0, 0.0)
    ends = []
    for spread, total in ((sums.steps, most), (sums.reached[0], fewest)):
        summed = 0.0 if spread is None else float(spread.sum())
        if spread is None or not summed or not total:
            return Interval(0.0, None, "drafts of the class unknown", "requests")
        ends.append(ratio_over_prompts(sums.accepted, spread * (total / summed), level)[1])
    return Interval(ends[0].low, ends[1].high, f"{ends[0].basis}, whichever of the silent steps drafted", "requests")


def _binomial(share: float, sums: ClassSums, evidence: Evidence) -> Interval:
    """Never narrower than independent drafts of one round would give."""
    in_a_round = float(sums.drafts.sum()) / max(1, len(evidence.comparison.arm("specdec")))
    return wilson(min(max(share, 0.0), 1.0), max(1.0, in_a_round), evidence.level, of="drafts of a round")


def _estimate(value: float, interval: Interval, sums: ClassSums, evidence: Evidence) -> Estimate:
    return Estimate(
        value=value,
        low=interval.low,
        high=interval.high,
        level=evidence.level,
        samples=sums.prompts,
        basis=f"{interval.basis}, from {sums.source}",
        limited_by="requests",
    )
