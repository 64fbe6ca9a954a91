"""How much worse the speculating server is than in a saved measurement: the objective ``max_regression``.

Every change is positive where things got worse. Intervals hold what both measurements leave open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.acceptance_stats import acceptance_length
from pytest_specdec.core.errors import CannotMeasure, SpecDecError
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.gains import time_gain
from pytest_specdec.core.intervals import Interval, ratio_of_sums
from pytest_specdec.core.saved import changed_since
from pytest_specdec.core.tables import grid, numbered
from pytest_specdec.core.throughput import throughput
from pytest_specdec.core.two_runs import Sums, apart, difference, over_prompts, welch
from pytest_specdec.core.validity import check_comparison
from pytest_specdec.core.verdict import Estimate, Requirement

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_specdec.core.contributions import Contributions
    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.saved import Saved
    from pytest_specdec.core.verdict import Unit

_SHARED = 0.5
"""Share of the requests whose prompts both measurements must have in common."""


@dataclass(frozen=True)
class Change:
    """One quantity then and now."""

    before: Estimate
    now: Estimate
    worse: Estimate
    """By what fraction it got worse: of the saved value, or, for a gain, in parts of 1 (percentage points)."""


def figure_text(estimate: Estimate, unit: Unit) -> str:
    """``9.31 ms (9.22 .. 9.40)``: three digits that count, percent with one decimal."""
    scale, suffix = (100, " %") if unit == "fraction" else (1, "" if unit == "tokens" else f" {unit}")
    size = abs(estimate.value)
    decimals = 1 if unit == "fraction" or 10 <= size < 100 else 0 if size >= 100 else 2  # noqa: PLR2004 - three digits
    low, high = ("?" if end is None else f"{scale * end:.{decimals}f}" for end in (estimate.low, estimate.high))
    return f"{scale * estimate.value:.{decimals}f}{suffix} ({low} .. {high})"


def regression(evidence: Evidence, requirement: Requirement) -> Estimate:
    """The fraction by which the requirement's part got worse, with both figures as its remark."""
    saved = evidence.saved
    change = change_of(evidence, saved, requirement.part or "tpot")
    also = _meanwhile(evidence, saved) if requirement.part == "tpot" else ""
    then, now = (figure_text(one, UNITS[requirement.part or "tpot"]) for one in (change.before, change.now))
    both = f"{then} in {saved.name}, {now} now"
    return replace(change.worse, remark=both + also)


UNITS: dict[str, Unit] = {"tpot": "ms", "throughput": "tok/s", "acceptance_length": "tokens", "tpot_gain": "fraction"}
"""Of the :data:`pytest_specdec.core.slo_values.REGRESSIONS`."""


def figure_of(evidence: Evidence, part: str) -> Estimate:
    """One of the quantities in one run, in its :data:`UNITS`.

    Raises:
        CannotMeasure: It is undefined there.
    """
    if part == "throughput":
        return throughput(evidence, Requirement("throughput", math.nan))
    if part == "acceptance_length":
        return acceptance_length(evidence, Requirement("min_acceptance_length", math.nan))
    if part == "tpot_gain":
        return time_gain(evidence, Requirement("tpot_gain", math.nan))
    logs = _plain_logs(evidence)
    return _geometric_mean_ms(_sums(logs, np.unique(logs.unit), evidence), evidence.level)


def change_of(evidence: Evidence, saved: Saved, part: str) -> Change:
    """One of the :data:`pytest_specdec.core.slo_values.REGRESSIONS`.

    Raises:
        CannotMeasure: It is undefined in one of the two measurements, or they share too few prompts.
    """
    try:
        check_comparison(saved.comparison)
    except SpecDecError as error:
        raise CannotMeasure(f"the saved result, {saved.name}, cannot be used: {error.what}") from None
    before = Evidence(saved.comparison, evidence.level)
    return {"tpot": _tpot, "throughput": _throughput, "acceptance_length": _acceptance, "tpot_gain": _gain}[part](
        evidence, before
    )


def _tpot(now: Evidence, before: Evidence) -> Change:
    """``TPOT now / TPOT then - 1``, geometric means over the same prompts."""
    ours, theirs = _matched(_plain_logs(now), _plain_logs(before), now, before)
    value, interval = difference(ours, theirs, now.level, of=now.moments)
    return Change(
        _geometric_mean_ms(theirs, now.level),
        _geometric_mean_ms(ours, now.level),
        worse=_worse(math.expm1, value, interval, now),
    )


def _gain(now: Evidence, before: Evidence) -> Change:
    """The TPOT gain lost, in parts of 1; the factor between a change of logarithms and one of gains is that of the saved run."""
    then, today = (figure_of(one, "tpot_gain") for one in (before, now))
    ours, theirs = _matched(_ratio_logs(now), _ratio_logs(before), now, before)
    value, interval = difference(ours, theirs, now.level, of=now.moments)
    factor = math.exp(theirs.value)
    worse = _worse(lambda log: factor * math.expm1(log), value, interval, now)
    return Change(then, today, worse=worse)


def _throughput(now: Evidence, before: Evidence) -> Change:
    """``1 - throughput now / throughput then``, geometric means over rounds."""
    then, today = (figure_of(one, "throughput") for one in (before, now))
    ours, theirs = (_over_moments(one) for one in (now, before))
    value = float(ours.mean() - theirs.mean())
    interval = welch(ours, theirs, value, now.level, of=now.moments)
    return Change(then, today, worse=_worse(_lost, value, interval, now, falling=True))


def _acceptance(now: Evidence, before: Evidence) -> Change:
    """``1 - AL now / AL then``, from the counters; the interval from how each prompt's tokens per draft changed."""
    then, today = (figure_of(one, "acceptance_length") for one in (before, now))
    value, interval = apart(today, then)
    known = _contributions_of_the_same(now, before)
    # Where all or no drafts were accepted there is no spread between prompts, and each figure's own interval knows it.
    if known is not None and not any(one.value <= 1 or one.value == one.high for one in (then, today)):
        ours, theirs = (_log_residuals(one) for one in known)
        interval = over_prompts(ours - theirs, value, now.level) or interval
    return Change(then, today, worse=_worse(_lost, value, interval, now, falling=True))


def _lost(log: float) -> float:
    return -math.expm1(log)


def _worse(
    of_log: Callable[[float], float], value: float, interval: Interval, evidence: Evidence, *, falling: bool = False
) -> Estimate:
    """From the change of a logarithm to the fraction by which things got worse; ``falling``: where less is worse."""
    low, high = (None if end is None else of_log(end) for end in (interval.low, interval.high))
    if falling:
        low, high = high, low
    return Estimate(
        value=of_log(value),
        low=low,
        high=high,
        level=evidence.level,
        samples=evidence.comparison.rounds,
        basis=interval.basis,
        limited_by=interval.limited_by,
    )


@dataclass(frozen=True)
class _Logs:
    """Logarithms of one quantity of single requests; shape (requests,)."""

    value: Floats
    round: Ints
    unit: Ints
    """See :meth:`Evidence.units`."""


def _plain_logs(evidence: Evidence) -> _Logs:
    table = evidence.spec
    there = ~np.isnan(table.tpot_s)
    if not there.any():
        raise CannotMeasure("no answer has a TPOT: all have a single token", remedy="Raise max_tokens.")
    return _Logs(np.log(table.tpot_s[there]), table.round[there], evidence.units(table)[there])


def _ratio_logs(evidence: Evidence) -> _Logs:
    base, spec = evidence.base, evidence.spec
    width = 1 + int(max(base.index.max(), spec.index.max()))
    _, left, right = np.intersect1d(
        base.round * width + base.index, spec.round * width + spec.index, assume_unique=True, return_indices=True
    )
    both = ~np.isnan(base.tpot_s[left]) & ~np.isnan(spec.tpot_s[right])
    left, right = left[both], right[both]
    if not len(left):
        raise CannotMeasure("no request has a TPOT in both arms", remedy="Raise max_tokens.")
    return _Logs(np.log(spec.tpot_s[right] / base.tpot_s[left]), base.round[left], evidence.units(base)[left])


def _matched(ours: _Logs, theirs: _Logs, now: Evidence, before: Evidence) -> tuple[Sums, Sums]:
    """Both runs over the prompts that both have, a column each."""
    if now.comparison.plan_is_fresh:  # every round has its own prompts: only rounds that both have are the same work
        rounds = min(now.comparison.rounds, before.comparison.rounds)
        ours, theirs = (_chosen(one, one.round < rounds) for one in (ours, theirs))
    units = np.intersect1d(ours.unit, theirs.unit)
    if len(units) < _SHARED * len(np.unique(ours.unit)):
        raise CannotMeasure(
            f"max_regression: the two measurements have {len(units)} prompts in common, of {len(np.unique(ours.unit))}",
            remedy="Save a result of the same workload and num_requests.",
        )
    return _sums(ours, units, now), _sums(theirs, units, before)


def _chosen(logs: _Logs, rows: NDArray[np.bool_]) -> _Logs:
    return _Logs(logs.value[rows], logs.round[rows], logs.unit[rows])


def _sums(logs: _Logs, units: Ints, evidence: Evidence) -> Sums:
    logs = _chosen(logs, np.isin(logs.unit, units))
    moment, unit = numbered(evidence.moment(logs.round)), numbered(logs.unit)
    return Sums(grid(logs.value, moment, unit), grid(np.ones_like(logs.value), moment, unit))


def _geometric_mean_ms(sums: Sums, level: float) -> Estimate:
    value, interval = ratio_of_sums(sums.numerator, sums.denominator, level)
    low, high = (None if end is None else 1000 * math.exp(end) for end in (interval.low, interval.high))
    return Estimate(1000 * math.exp(value), low, high, level=level, basis=interval.basis)


def _over_moments(evidence: Evidence) -> Floats:
    """Logarithm of the speculating server's throughput in each independent unit of time."""
    logs = np.log(np.array([rate for rate in evidence.throughput("specdec") if rate]))
    units = numbered(evidence.moment(np.arange(len(logs))))
    means: Floats = np.bincount(units, weights=logs) / np.bincount(units)
    return means


def _contributions_of_the_same(now: Evidence, before: Evidence) -> tuple[Contributions, Contributions] | None:
    """What each prompt added to acceptance in both runs; None where it is not known, or not of the same prompts."""
    ours, theirs = now.contributions, before.contributions
    same = np.array_equal(np.unique(now.units(now.spec)), np.unique(before.units(before.spec)))
    rounds = not now.comparison.plan_is_fresh or now.comparison.rounds == before.comparison.rounds
    return (ours, theirs) if ours is not None and theirs is not None and same and rounds else None


def _log_residuals(known: Contributions) -> Floats:
    """What each prompt adds to the deviation of log(AL), linearised."""
    sums = Sums((known.accepted + known.drafts)[None, :], known.drafts[None, :])
    return sums.residuals() / sums.value


def _meanwhile(evidence: Evidence, saved: Saved) -> str:
    """What else changed: where the plain server did alike, the draft is not to blame."""
    then, now = (np.nanmean(np.log(one.base.tpot_s)) for one in (Evidence(saved.comparison, evidence.level), evidence))
    also = f"; the baseline's own TPOT changed by {100 * math.expm1(float(now - then)):+.1f} %"
    changed = changed_since(evidence.comparison, saved.comparison)
    return also + (f"; besides, saved against now: {'; '.join(changed)}" if changed else "")
