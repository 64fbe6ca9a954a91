"""What another number of speculative tokens (K) would gain, from two or more that were measured; and which K to take.

A decode step with K drafted tokens costs ``r(K)`` plain steps and yields ``1 + coverage x (p_0 + ... + p_(K-1))`` tokens, so the TPOT
gain is ``1 - r(K) / yield(K)``. Drafting takes K equal passes and verification grows little, hence ``r`` is taken to be linear in K.
``p_i`` is joint acceptance; beyond the longest draft that was measured the last conditional acceptance is kept, which is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_specdec.core.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.k_choice import KChoice
    from pytest_specdec.core.k_measured import MeasuredK
    from pytest_specdec.core.verdict import Estimate

_LEAST_RATIO = 1e-3
"""Of a step: a line that is extended far must not become free, or negative."""
GIVEN_AWAY = 0.03
"""So much of the best gain a smaller K may give away to be recommended: under a higher load it is the smaller one that loses less."""


@dataclass(frozen=True)
class Predicted:
    """One K. Gains are fractions of the baseline's TPOT."""

    k: int
    acceptance_length: float
    step_ratio: float
    """Cost of a speculative step in plain steps."""
    gain: float
    low: float
    high: float
    extrapolated: bool
    """Its acceptance goes beyond the longest draft that was measured."""
    measured: bool
    """The figures are those of the measurement itself."""


@dataclass(frozen=True)
class Advice:
    """The table, and what follows from it."""

    level: float
    predicted: tuple[Predicted, ...]
    best: int
    """With the largest gain."""
    recommended: int | None
    """The smallest K that gains within :data:`GIVEN_AWAY` of the best one and that none is provably better than; None where every
    K provably loses."""
    pays: bool
    """Whether the recommended K's whole interval is a gain."""

    def of(self, k: int) -> Predicted:
        """The row of one K."""
        return next(one for one in self.predicted if one.k == k)


@dataclass(frozen=True)
class Tuning:
    """What looking for a K came to."""

    advice: Advice
    """From everything that was measured."""
    choice: KChoice
    gains: Mapping[int, Estimate]
    """TPOT gain of each K that was measured."""
    foretold: Mapping[int, Predicted] = field(default_factory=dict)
    """What was predicted for a K before it was measured."""
    speculative_config: Mapping[str, Any] = field(default_factory=dict)
    """The config's, with the recommended K; empty where none is recommended."""


def advise(
    measured: Sequence[MeasuredK], candidates: Sequence[int], level: float, *, beaten: Collection[int] = ()
) -> Advice:
    """Predict and recommend.

    Args:
        measured: At least two different Ks.
        candidates: Ks to choose among; those that were measured are added.
        level: Two-sided confidence of every interval.
        beaten: Ks that another one was measured to be better than, request by request. That tells apart what predictions, whose
            intervals hold the noise of both, do not.

    Raises:
        CannotMeasure: Fewer than two Ks: one does not tell what a drafted token costs.
    """
    by_k = {one.k: one for one in measured}
    if len(by_k) < 2:  # noqa: PLR2004 - a line needs two points
        raise CannotMeasure("one K does not tell what another drafted token costs: two are needed")
    draws: dict[int, Floats] = {}
    rows = []
    for k in sorted({*candidates, *by_k}):
        row, draws[k] = _predicted(k, by_k, level)
        rows.append(row)
    best = max(rows, key=lambda row: row.gain)
    tail = (1 - level) / 2
    within = [row.k for row in rows if row.k == best.k or np.quantile(draws[best.k] - draws[row.k], tail) <= 0]
    standing = set(within).difference(beaten) or set(within)
    top = max(row.gain for row in rows if row.k in standing)
    recommended = min(row.k for row in rows if row.k in standing and row.gain >= top - GIVEN_AWAY)
    if all(row.high < 0 for row in rows):
        return Advice(level, tuple(rows), best.k, None, pays=False)
    return Advice(
        level, tuple(rows), best.k, recommended, pays=next(row.low for row in rows if row.k == recommended) > 0
    )


def _predicted(k: int, by_k: dict[int, MeasuredK], level: float) -> tuple[Predicted, Floats]:
    if k in by_k:
        own = by_k[k]
        length, gains = own.acceptance_length, 1 - np.exp(own.log_ratio_draws)
        ratio, gain = float(np.exp(own.log_ratio)) * _yield(own.joint, own.coverage), 1 - float(np.exp(own.log_ratio))
    else:
        longest = by_k[max(by_k)]
        joint, joint_draws = extended(np.array([longest.joint]), k), extended(longest.joint_draws, k)
        length = 1 + float(joint.sum())
        ratio = float(_ratio(k, by_k, drawn=False)[0])
        gain = 1 - ratio / _yield(joint[0], longest.coverage)
        gains = 1 - _ratio(k, by_k, drawn=True) / (1 + longest.coverage * joint_draws.sum(axis=1))
    low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
    row = Predicted(
        k=k,
        acceptance_length=length,
        step_ratio=ratio,
        gain=gain,
        low=float(low),
        high=float(high),
        extrapolated=k > max(by_k),
        measured=k in by_k,
    )
    return row, gains


def _yield(joint: Sequence[float] | Floats, coverage: float) -> float:
    return 1 + coverage * float(np.sum(joint))


def extended(joint: Floats, k: int) -> Floats:
    """The first ``k`` positions; beyond what there is, the last conditional acceptance is kept.

    Args:
        joint: Shape (draws, positions), non-increasing along positions.
        k: How many positions are wanted.
    """
    positions = joint.shape[1]
    if k <= positions:
        return joint[:, :k]
    before = joint[:, -2] if positions > 1 else np.ones(len(joint))
    conditional = np.divide(joint[:, -1], before, out=np.zeros(len(joint)), where=before > 0)
    further = joint[:, -1:] * conditional[:, None] ** np.arange(1, k - positions + 1)
    return np.concatenate([joint, further], axis=1)


def _ratio(k: int, by_k: dict[int, MeasuredK], *, drawn: bool) -> Floats:
    """The least-squares line through the measured step ratios at ``k``, flat where it would fall, for the points or every draw."""
    ks = np.array(sorted(by_k), dtype=np.float64)
    ratios = np.stack(
        [
            np.exp(one.log_ratio_draws) * (1 + one.coverage * one.joint_draws.sum(axis=1))
            if drawn
            else np.array([np.exp(one.log_ratio) * _yield(one.joint, one.coverage)])
            for one in (by_k[int(each)] for each in ks)
        ]
    )
    centred = ks - ks.mean()
    # Another drafted token never makes a step cheaper: a line that falls is noise, and followed far it would promise everything.
    slope = np.maximum((centred[:, None] * ratios).sum(axis=0) / (centred**2).sum(), 0.0)
    line: Floats = np.maximum(ratios.mean(axis=0) + slope * (k - ks.mean()), _LEAST_RATIO)
    return line
