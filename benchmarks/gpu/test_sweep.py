"""Gain against load, and fixed K against the derived schedule against none: run by ``sweep.sh``.

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
MAX_TOKENS = int(os.environ.get("SWEEP_MAX_TOKENS", "64"))


@pytest.mark.spec_load(
    workload="chat",
    concurrency=LOADS,
    num_requests=REQUESTS,
    max_tokens=MAX_TOKENS,
    ignore_eos=True,
    rounds=2,
    max_rounds=2,
)
@pytest.mark.spec_slo(tpot_gain=-4.0)
def test_gain_against_load(spec_comparison: SpecComparison) -> None:
    """Every load is measured; the table is in the results."""
    assert [point.load.concurrency for point in spec_comparison.points] == LOADS
