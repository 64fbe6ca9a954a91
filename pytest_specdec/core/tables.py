"""Tables of requests and values as arrays, and how they are summed by round and prompt."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Floats, Ints


@dataclass(frozen=True)
class RequestTable:
    """The successful requests of one arm, one row each; all arrays have shape (requests,)."""

    round: Ints
    index: Ints
    """Place in the plan: equal in both arms for the same request."""
    prompt: Ints
    """See :attr:`RequestSample.content`."""
    tokens: Ints
    ttft_s: Floats
    e2el_s: Floats
    tpot_s: Floats
    """NaN where undefined."""


@dataclass(frozen=True)
class Values:
    """Values of one quantity with the request that each comes from."""

    value: Floats
    """Shape (values,), request after request."""
    request: NDArray[np.integer]
    """Row of the request, shape (values,), rising."""
    round: Ints
    """Of each request, rising; shape (requests,), as all that follow."""
    prompt: Ints
    unit: Ints
    """Column of a (rounds x units) grid, from 0; see :meth:`Evidence.units`."""
    excluded: int

    @functools.cached_property
    def counts(self) -> Floats:
        """How many values each prompt has in each round, shape (rounds, prompts)."""
        return grid(self.of_request(), self.round, self.prompt)

    def where(self, chosen: NDArray[np.bool_]) -> Floats:
        """How many of them are chosen, likewise."""
        of_request = np.bincount(self.request[chosen], minlength=len(self.round))
        return grid(of_request.astype(np.float64), self.round, self.prompt)

    def of_request(self, weights: Floats | None = None) -> Floats:
        """Sums of ``weights`` over the values of each request, or their number; shape (requests,)."""
        return np.bincount(self.request, weights=weights, minlength=len(self.round)).astype(np.float64)

    @functools.cached_property
    def ascending(self) -> Floats:
        """All values, sorted."""
        values = np.concatenate(self.by_round)
        values.sort(kind="stable")  # merges what is sorted already
        return values

    @functools.cached_property
    def by_round(self) -> tuple[Floats, ...]:
        """The values of each round, sorted."""
        ends = np.cumsum(np.bincount(self.round, weights=self.of_request())).astype(np.int64)
        return tuple(np.sort(part) for part in np.split(self.value, ends[:-1]) if len(part))


@dataclass(frozen=True)
class Pairs:
    """One quantity of the same request in both arms; shape (pairs,)."""

    base: Floats
    spec: Floats
    round: Ints
    unit: Ints
    excluded: int


def grid(weights: Floats, rounds: Ints, units: Ints) -> Floats:
    """Sums of ``weights`` by round and unit, shape (rounds, units)."""
    height, width = int(rounds.max()) + 1, int(units.max()) + 1
    summed = np.bincount(rounds * width + units, weights=weights, minlength=height * width)
    return summed.reshape(height, width).astype(np.float64)


def numbered(labels: Ints | Sequence[int]) -> Ints:
    """The same labels as numbers from 0."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
