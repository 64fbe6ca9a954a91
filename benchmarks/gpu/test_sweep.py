"""Gain against load, fixed K against the derived schedule against none, and a K at one load: run by ``sweep.sh``.

Objectives are such that a figure, not a threshold, is the result: what gates say about schedules is in the tests of the plugin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison

LOADS = [int(load) for load in os.environ.get("SWEEP_LOADS", "1 8 32 128").split()]
REQUESTS = int(os.environ.get("SWEEP_REQUESTS", "16"))
ROUNDS = int(os.environ.get("SWEEP_ROUNDS", "2"))
MAX_TOKENS = int(os.environ.get("SWEEP_MAX_TOKENS", "64"))


@pytest.mark.spec_load(
    workload="chat",
    concurrency=LOADS,
    num_requests=REQUESTS,
    max_tokens=MAX_TOKENS,
    ignore_eos=True,
    rounds=ROUNDS,
    max_rounds=ROUNDS,
)
@pytest.mark.spec_slo(tpot_gain=-4.0)
def test_gain_against_load(spec_comparison: SpecComparison) -> None:
    """Every load is measured; the table is in the results."""
    assert [point.load.concurrency for point in spec_comparison.points] == LOADS


@pytest.mark.spec_load(
    workload="chat", concurrency=8, num_requests=32, max_tokens=MAX_TOKENS, ignore_eos=True, rounds=3, max_rounds=3
)
@pytest.mark.spec_slo(tpot_gain=-4.0)
def test_one_load(spec_comparison: SpecComparison) -> None:
    """For ``--specdec-tune``, which takes the load from here and runs no test."""
    assert spec_comparison.load.concurrency == 8
