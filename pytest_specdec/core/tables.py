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
    """Values of one quantity with where each comes from; shape (values,)."""

    value: Floats
    round: Ints
    prompt: Ints
    unit: Ints
    """Column of a (rounds x units) grid, from 0; see :meth:`Evidence.units`."""
    excluded: int

    @functools.cached_property
    def counts(self) -> Floats:
        """How many values each prompt has in each round, shape (rounds, prompts)."""
        return self.where(np.ones(len(self.value), dtype=np.bool_))

    def where(self, chosen: NDArray[np.bool_]) -> Floats:
        """How many of them are chosen, likewise."""
        rounds, prompts, cell = self._cells
        return np.bincount(cell[chosen], minlength=rounds * prompts).reshape(rounds, prompts).astype(np.float64)

    @functools.cached_property
    def _cells(self) -> tuple[int, int, Ints]:
        rounds, prompts = int(self.round.max()) + 1, int(self.prompt.max()) + 1
        return rounds, prompts, self.round * prompts + self.prompt

    @functools.cached_property
    def ascending(self) -> Floats:
        """All values, sorted."""
        # A stable sort merges what is sorted already.
        return np.sort(np.concatenate(self.by_round), kind="stable")

    @functools.cached_property
    def by_round(self) -> tuple[Floats, ...]:
        """The values of each round, sorted."""
        order = np.argsort(self.round.astype(np.int16), kind="stable")
        parts = np.split(self.value[order], np.cumsum(np.bincount(self.round))[:-1])
        return tuple(np.sort(part) for part in parts if len(part))


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
