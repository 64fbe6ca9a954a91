"""What two groups of running servers counted over a window of time, cut into slices of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.samples import Arm


@dataclass(frozen=True)
class LiveHistogram:
    """Observations of one quantity."""

    bounds_s: tuple[float, ...]
    """Upper bounds of the buckets in ascending order, the last one infinite."""
    counts: Floats
    """Shape (slices, buckets): observations within each bucket, not cumulative."""
    sums_s: Floats
    """Shape (slices,): of all observations."""


@dataclass(frozen=True)
class LiveArm:
    """All servers that one label selector chooses, added up."""

    selector: str
    counts: Mapping[str, Floats]
    """By field of :class:`ServerCounters`, and ``errors`` and ``http_5xx``: shape (slices,). Absent where no server counts it."""
    positions: Floats | None
    """Accepted tokens per draft position, shape (slices, positions)."""
    histograms: Mapping[str, LiveHistogram]
    """By quantity: ttft, tpot, e2el."""
    restarts: int
    """How often a counter began again."""
    models: frozenset[str]
    """Names under which they serve."""

    def total(self, field: str) -> float:
        """Over the whole window; 0 where no server counts it."""
        return float(self.counts[field].sum()) if field in self.counts else 0.0

    def mean(self, of: str, per: str) -> float | None:
        """``of / per`` over the whole window."""
        return self.total(of) / self.total(per) if self.total(per) else None


@dataclass(frozen=True)
class LiveWindow:
    """Both arms over the same time."""

    baseline: LiveArm
    specdec: LiveArm
    window_s: float

    def arm(self, arm: Arm) -> LiveArm:
        """One of the two."""
        return self.baseline if arm == "baseline" else self.specdec


def grown(values: Floats) -> Floats:
    """What counters gained from each point in time to the next.

    A counter that went down began again at 0 in between. Where one of two neighbouring points is missing (the server was not
    scraped yet, or no longer), nothing is counted.

    Args:
        values: Shape (series, points), NaN where there is no value.

    Returns:
        Shape (series, points - 1).
    """
    before, after = values[:, :-1], values[:, 1:]
    gained: Floats = np.nan_to_num(np.where(after < before, after, after - before))
    return gained
