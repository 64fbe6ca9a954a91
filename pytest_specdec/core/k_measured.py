"""One K as it was measured, with draws that carry its uncertainty: what predictions for other Ks start from.

A draw is one world that the measurement is compatible with. Draws with the same number belong together for all Ks that answered the
same prompts: these are resampled alike, so that what prompts do to acceptance and to speed at once cancels where it should.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.intervals import RESAMPLES, SEED, resampling_counts, t_quantile, z_quantile
from pytest_specdec.core.metrics import draft_coverage
from pytest_specdec.core.tables import grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.samples import Comparison

_TIME = 5
"""The stream of random numbers for what differs from round to round."""


@dataclass(frozen=True)
class MeasuredK:
    """What was seen with one number of speculative tokens."""

    k: int
    log_ratio: float
    """Mean of ``ln(TPOT_spec / TPOT_base)`` over pairs; a TPOT gain is ``1 - exp`` of it."""
    joint: tuple[float, ...]
    """Share of drafts with at least ``i + 1`` tokens accepted; ``k`` of them."""
    coverage: float
    """Share of decode steps that draft."""
    log_ratio_draws: Floats
    """Shape (draws,)."""
    joint_draws: Floats
    """Shape (draws, k)."""

    @property
    def acceptance_length(self) -> float:
        """``1 + sum of joint``."""
        return 1 + sum(self.joint)


def measured_k(comparison: Comparison) -> MeasuredK:
    """From a comparison. Acceptance that is made up counts: what follows holds for a draft that is accepted so.

    Raises:
        CannotMeasure: There is no gain or no acceptance in it.
    """
    evidence = Evidence(comparison, comparison.load.confidence)
    evidence.check_gain_is_told()
    acceptance, pairs = evidence.counted_acceptance, evidence.pairs("tpot")
    if acceptance.per_position is None:
        raise CannotMeasure("the server does not count acceptance by position, so nothing can be said about another K")
    coverage = draft_coverage(evidence.counters)
    known = evidence.contributions
    log_ratio = np.log(pairs.spec / pairs.base)
    positions = len(acceptance.per_position)
    empty = np.zeros(1 if known is None else len(known.drafts))
    return from_arrays(
        log_ratio=grid(log_ratio, pairs.round, pairs.unit),
        pairs=grid(np.ones_like(log_ratio), pairs.round, pairs.unit),
        joint=acceptance.per_position,
        coverage=1.0 if coverage is None else coverage,
        drafts=empty if known is None else known.drafts,
        reached=[known.reached[i] if known and i < len(known.reached) else empty for i in range(positions)],
    )


def from_arrays(
    *,
    log_ratio: Floats,
    pairs: Floats,
    joint: Sequence[float],
    coverage: float,
    drafts: Floats,
    reached: Sequence[Floats],
) -> MeasuredK:
    """The draws, from sums by round and prompt.

    What prompts do is drawn by resampling them, what rounds do as Student's t over their means: rounds repeat the prompts, so that
    the two add up.

    Args:
        log_ratio: Shape (rounds, prompts), summed over the pairs of a cell.
        pairs: How many these are, likewise.
        joint: Acceptance by position, from the counters.
        coverage: Share of decode steps that draft.
        drafts: Shape (prompts,); zeros where it is unknown what each contributed.
        reached: By position, likewise.

    Raises:
        CannotMeasure: A single round, whose noise nothing tells.
    """
    rounds, prompts = log_ratio.shape
    k = len(joint)
    if rounds < 2:  # noqa: PLR2004 - one value has no spread
        raise CannotMeasure("a single round does not tell how much rounds differ", remedy="Raise rounds.")
    counts = resampling_counts(prompts, 2)
    wider = _wider(prompts)
    point = float(log_ratio.sum() / pairs.sum())
    of_prompts = (counts @ log_ratio.sum(axis=0)) / np.maximum(counts @ pairs.sum(axis=0), 1e-12)
    means = log_ratio.sum(axis=1) / np.maximum(pairs.sum(axis=1), 1e-12)
    error = float(np.std(means, ddof=1)) / math.sqrt(rounds)
    noise = error * np.random.default_rng([SEED, _TIME, k]).standard_t(rounds - 1, size=RESAMPLES)
    return MeasuredK(
        k=k,
        log_ratio=point,
        joint=tuple(joint),
        coverage=coverage,
        log_ratio_draws=point + wider * (of_prompts - point) + noise,
        joint_draws=_joint_draws(np.asarray(joint), drafts, reached, prompts),
    )


def _joint_draws(joint: Floats, drafts: Floats, reached: Sequence[Floats], prompts: int) -> Floats:
    """Moved to the counters' values, and kept non-increasing from 1."""
    units = len(drafts)
    if units < 2 or not drafts.sum():  # noqa: PLR2004 - as above
        # As if each prompt accepted either everything or nothing at a position: no spread of prompts can be larger.
        z = np.random.default_rng([SEED, _TIME]).standard_normal((RESAMPLES, 1))
        draws = joint + z * np.sqrt(joint * (1 - joint) / max(prompts, 1))
    else:
        counts = resampling_counts(units, 2)
        drawn = np.maximum(counts @ drafts, 1e-12)
        columns = [(counts @ one) / drawn - float(one.sum() / drafts.sum()) for one in reached]
        draws = joint + _wider(units) * np.stack(columns, axis=1)
    return np.minimum.accumulate(np.clip(draws, 0.0, 1.0), axis=1)


def _wider(prompts: int) -> float:
    """By how much a bootstrap over so few units is too narrow."""
    if prompts < 2:  # noqa: PLR2004 - as above
        return 1.0
    return math.sqrt(prompts / (prompts - 1)) * t_quantile(0.95, prompts - 1) / z_quantile(0.95)
