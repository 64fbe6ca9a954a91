"""A hint that a series of runs has changed its level: a permutation test by ranks, so that single outliers do not trip it.

At every split of the series the runs before are compared with those after by the Mann-Whitney statistic, in units of its standard
deviation, and the largest of these is held against those of random orders of the same values. That is Pettitt's test (1979), but for
the standardisation, which finds the right place where there are several steps. It holds whatever the distribution of the values,
but takes runs to be independent: a slow drift looks like a step, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.intervals import Floats

FEWEST = 10
"""With fewer runs not even a perfect step is beyond chance at :data:`LEVEL`."""
LEVEL = 0.01
_ORDERS = 9999
_SEED = 1979


@dataclass(frozen=True)
class ChangePoint:
    """Where the level of a series changed."""

    at: int
    """Place of the first run on the new level."""
    before: float
    """Median of the runs before it, as far back as the change before that."""
    after: float
    p_value: float


def last_change(values: Sequence[float]) -> ChangePoint | None:
    """The latest change of level that is beyond chance; None where there is none, or too little to tell.

    Args:
        values: In the order of time.
    """
    found, start = None, 0
    while len(values) - start >= FEWEST:
        part = np.asarray(values[start:], dtype=np.float64)
        at, p_value = _best_split(part)
        if p_value > LEVEL:
            break
        found = ChangePoint(start + at, float(np.median(part[:at])), float(np.median(part[at:])), p_value)
        start += at
    return found


def _best_split(values: Floats) -> tuple[int, float]:
    """The most likely split, and how often a random order of the values has one as clear."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    orders = np.random.default_rng(_SEED).permuted(np.tile(ranks, (_ORDERS, 1)), axis=1)
    split = _separation(ranks[None, :])[0]
    largest = float(split.max())
    as_clear = int((_separation(orders).max(axis=1) >= largest - 1e-9).sum())
    return int(split.argmax()) + 1, (1 + as_clear) / (1 + _ORDERS)


def _separation(ranks: Floats) -> Floats:
    """The standardised Mann-Whitney statistic at every split, without its sign, for each row."""
    count = ranks.shape[1]
    before = np.arange(1, count)
    surplus = np.cumsum(ranks, axis=1)[:, :-1] - before * (count + 1) / 2
    found: Floats = np.abs(surplus) / np.sqrt(before * (count - before) * (count + 1) / 12)
    return found


def usual_step(values: Sequence[float]) -> float | None:
    """Median change from one run to the next, as a fraction of the value; None for fewer than three runs.

    A change of level enters one step only, so it hardly matters here.
    """
    if len(values) < 3:  # noqa: PLR2004 - two runs have one step, which is no habit
        return None
    series = np.asarray(values, dtype=np.float64)
    return float(np.median(np.abs(np.diff(series)) / np.abs(series[:-1])))
