"""Figures of single rounds, for tools that make their own statistics from a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.steady import keeps_up

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm, Comparison

RoundQuantity = Literal["TPOT", "throughput"]
ROUND_QUANTITIES: tuple[RoundQuantity, RoundQuantity] = ("TPOT", "throughput")


def seconds_per_token(comparison: Comparison, arm: Arm, quantity: RoundQuantity) -> tuple[float, ...]:
    """One value for each round; empty where the quantity is undefined in any of them.

    TPOT is the geometric mean over a round's requests. Throughput is turned round, seconds per token of all requests together, so
    that less is better as for TPOT, and its reciprocal is tokens per second.
    """
    evidence = Evidence(comparison, comparison.load.confidence)
    if quantity == "throughput":
        rates = evidence.throughput(arm)
        known = [1 / rate for rate in rates if rate]
        return tuple(known) if len(known) == len(rates) and not keeps_up(comparison, arm) else ()
    try:
        table = evidence.base if arm == "baseline" else evidence.spec
    except CannotMeasure:
        return ()
    by_round = [table.tpot_s[(table.round == one) & ~np.isnan(table.tpot_s)] for one in np.unique(table.round)]
    if not all(map(len, by_round)):
        return ()
    return tuple(float(np.exp(np.log(one).mean())) for one in by_round)
