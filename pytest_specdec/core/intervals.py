"""Confidence intervals of single quantities, from plain arrays: t, bootstrap, Wilson, order statistics.

Everything is deterministic: resamples come from a fixed seed, so that a result file is judged the same twice. Only
``scipy.special`` is used, because importing ``scipy.stats`` alone costs half a second.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

RESAMPLES = 2000
SEED = 20_240_229
LimitedBy = Literal["", "rounds", "requests"]


@dataclass(frozen=True)
class Interval:
    """Bounds of a quantity; None where nothing bounds it on that side."""

    low: float | None
    high: float | None
    basis: str
    """How it was made, for the report."""
    limited_by: LimitedBy = ""
    """What there should be more of to make it narrower."""

    @property
    def width(self) -> float:
        """Infinite where a side is open."""
        return math.inf if self.low is None or self.high is None else self.high - self.low

    def clipped(self, low: float, high: float) -> Interval:
        """The same within the values that the quantity can take."""
        return Interval(
            None if self.low is None else min(max(self.low, low), high),
            None if self.high is None else max(min(self.high, high), low),
            self.basis,
            self.limited_by,
        )

    def moved(self, by: float, scale: float = 1.0) -> Interval:
        """``scale * x + by`` of both bounds, for a positive scale."""
        return Interval(
            None if self.low is None else scale * self.low + by,
            None if self.high is None else scale * self.high + by,
            self.basis,
            self.limited_by,
        )


UNBOUNDED = Interval(None, None, "a single value has no interval", "rounds")


def widest(*candidates: Interval | None) -> Interval:
    """The widest of several intervals of one quantity, the first among equals; unbounded when there is none."""
    known = [candidate for candidate in candidates if candidate is not None]
    return max(known, key=lambda interval: interval.width) if known else UNBOUNDED


def t_quantile(level: float, degrees: float) -> float:
    """Two-sided Student t quantile."""
    return float(special.stdtrit(degrees, (1 + level) / 2))


def z_quantile(level: float) -> float:
    """Two-sided normal quantile."""
    return float(special.ndtri((1 + level) / 2))


def t_over(means: Floats, centre: float, level: float, *, of: str, limited_by: LimitedBy) -> Interval | None:
    """Student t interval from independent means, laid around ``centre``; None for fewer than two.

    Args:
        means: Shape (n,), one per independent unit.
        centre: The point value, which may weigh the units by size.
        level: Two-sided confidence.
        of: The units' name for the report.
        limited_by: What more of the units means for the user.
    """
    if len(means) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    half = t_quantile(level, len(means) - 1) * float(np.std(means, ddof=1)) / math.sqrt(len(means))
    return Interval(centre - half, centre + half, f"t over {len(means)} {of}", limited_by)


def ratio_of_sums(
    numerator: Floats, denominator: Floats, level: float, *, of: str = "rounds"
) -> tuple[float, Interval]:
    """``sum(numerator) / sum(denominator)`` over rounds and prompts, with its interval.

    A mean is the case in which the denominators count values. Rounds are the independent unit of time noise, prompts that of
    content, hence the widest of: a two-way bootstrap that resamples rounds and prompts, a t interval over the rounds' ratios,
    and one over prompts (linearised; it guards against few prompts, where a bootstrap is too narrow).

    Args:
        numerator: Shape (rounds, prompts), 0 where nothing was measured.
        denominator: Likewise; cells that are 0 do not count.
        level: Two-sided confidence.
        of: What the rounds are called in the report.
    """
    value = float(numerator.sum() / denominator.sum())
    per_round, round_weights = numerator.sum(axis=1), denominator.sum(axis=1)
    measured = round_weights > 0
    over_rounds = t_over(per_round[measured] / round_weights[measured], value, level, of=of, limited_by="rounds")
    return value, widest(
        over_rounds,
        _two_way_bootstrap(numerator, denominator, level),
        _t_over_prompts(numerator.sum(axis=0), denominator.sum(axis=0), level),
    )


def ratio_over_prompts(numerator: Floats, denominator: Floats, level: float) -> tuple[float, Interval]:
    """The same for quantities that greedy rounds repeat exactly: only prompts are resampled.

    Args:
        numerator: Shape (prompts,), summed over rounds.
        denominator: Likewise.
        level: Two-sided confidence.
    """
    value = float(numerator.sum() / denominator.sum())
    return value, widest(
        _two_way_bootstrap(numerator[None, :], denominator[None, :], level),
        _t_over_prompts(numerator, denominator, level),
    )


def _two_way_bootstrap(numerator: Floats, denominator: Floats, level: float) -> Interval | None:
    rounds, prompts = numerator.shape
    if prompts < 2 and rounds < 2:  # noqa: PLR2004 - nothing to resample
        return None
    of_rounds, of_prompts = resampling_counts(rounds, 1), resampling_counts(prompts, 2)
    sums, weights = (resampled_sums(cells, of_rounds, of_prompts) for cells in (numerator, denominator))
    drawn = weights > 0
    low, high = np.quantile(sums[drawn] / weights[drawn], [(1 - level) / 2, (1 + level) / 2])
    resampled = f"{prompts} prompts, one round" if rounds == 1 else f"{rounds} rounds x {prompts} prompts"
    return Interval(float(low), float(high), f"bootstrap over {resampled}", "requests")


def resampled_sums(cells: Floats, of_rounds: Floats, of_prompts: Floats) -> Floats:
    """The sum over rounds and prompts in each resample, shape (RESAMPLES,).

    Args:
        cells: Shape (rounds, prompts).
        of_rounds: How often each round is drawn, shape (RESAMPLES, rounds).
        of_prompts: How often each prompt is drawn, shape (RESAMPLES, prompts).
    """
    # Prompts first: there are many of them and few rounds, so that what is in between stays small.
    sums: Floats = np.einsum("br,br->b", of_prompts @ cells.T, of_rounds)
    return sums


@functools.lru_cache(maxsize=8)
def resampling_counts(units: int, stream: int) -> Floats:
    """How often each unit is drawn in each resample, shape (RESAMPLES, units)."""
    generator = np.random.default_rng([SEED, stream, units])
    counts = np.empty((RESAMPLES, units))
    for resample in counts:  # one by one, since all draws together are as large as their counts
        resample[:] = np.bincount(generator.integers(units, size=units), minlength=units)
    return counts


def _t_over_prompts(numerator: Floats, denominator: Floats, level: float) -> Interval | None:
    measured = denominator > 0
    prompts = int(measured.sum())
    if prompts < 2:  # noqa: PLR2004 - one value has no spread
        return None
    value = numerator.sum() / denominator.sum()
    residuals = (numerator - value * denominator)[measured]
    error = math.sqrt(prompts / (prompts - 1) * float((residuals**2).sum())) / float(denominator.sum())
    half = t_quantile(level, prompts - 1) * error
    return Interval(float(value - half), float(value + half), f"t over {prompts} prompts", "requests")


def wilson(share: float, n: float, level: float, *, of: str) -> Interval:
    """Wilson's interval of a share among ``n`` independent units."""
    z2 = z_quantile(level) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return Interval(max(0.0, centre - half), min(1.0, centre + half), f"Wilson over {n:.0f} {of}", "requests")


def wilson_needs(share: float, level: float) -> int:
    """How many faultless independent requests prove a share."""
    z2 = z_quantile(level) ** 2
    return math.ceil(z2 * share / (1 - share)) if share < 1 else 0


def effective_size(hits: Floats, counts: Floats, level: float) -> int:
    """How many independent values the clustered ones are worth for a proportion.

    Requests of one prompt resemble each other, and so do those of one round. This is Korn and Graubard's effective sample
    size: Kish's design effect with a variance clustered both ways, and less when few prompts tell it. Rounds count for as
    much as prompts at most; where they differ more, t over rounds is the wider interval anyway. Where all or none are hits
    there is no spread to tell anything, and every prompt counts once.

    Args:
        hits: Shape (rounds, prompts).
        counts: Of values, likewise.
        level: Of the interval that will be made from it.
    """
    n, prompts = int(counts.sum()), int((counts.sum(axis=0) > 0).sum())
    share = float(hits.sum()) / n
    if prompts < 2:  # noqa: PLR2004 - one prompt, however often it is sent, is one
        return 1
    if share in (0.0, 1.0):
        return prompts
    residuals = hits - share * counts
    alone = share * (1 - share) / n
    of_prompts = _clustered_variance(residuals.sum(axis=0), counts.sum(axis=0), n)
    of_rounds = _clustered_variance(residuals.sum(axis=1), counts.sum(axis=1), n) - alone
    variance = of_prompts + min(max(of_rounds, 0.0), of_prompts)
    few_prompts = (z_quantile(level) / t_quantile(level, prompts - 1)) ** 2
    return int(min(max(few_prompts * share * (1 - share) / variance, 1), n)) if variance > 0 else n


def _clustered_variance(residuals: Floats, counts: Floats, n: int) -> float:
    """Variance of the mean when only whole clusters are independent; 0 for a single one, which tells nothing."""
    clusters = int((counts > 0).sum())
    return float((residuals**2).sum()) / n**2 * clusters / (clusters - 1) if clusters > 1 else 0.0
