"""Controls whose verdicts are known beforehand: real timings of an 8B shape, acceptance set by hand. Run by ``controls.sh``.

A config's id carries the acceptance length that was set: ``head-2.5`` is an EAGLE-3-shaped head at 2.5, ``draft-2.5`` a 0.6B-shaped draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison

pytestmark = pytest.mark.spec_load(workload="chat", ignore_eos=True, max_tokens=64)

LOADS = [
    pytest.param(load, marks=pytest.mark.spec_load(concurrency=load, num_requests=requests), id=f"c{load}")
    for load, requests in ((1, 12), (8, 32), (32, 128), (128, 512))
]
TOKENS_FOR_A_NARROW_ANSWER = 6000
"""So many tokens tell the acceptance length to 0.05; fewer, at concurrency 1, to twice that."""


@pytest.mark.parametrize("concurrency", LOADS)
@pytest.mark.spec_slo(tpot_gain=0.2)
@pytest.mark.spec_slo(tpot_gain=0.0, configs="head-1.*")
def test_faster(spec_comparison: SpecComparison, concurrency: int) -> None:
    """A light head gains when tokens are accepted, and must FAIL at length 1.0; the 0.6B-shaped draft must FAIL at 2.5, too."""
    assert spec_comparison.load.concurrency == concurrency
    acceptance = spec_comparison.summary.acceptance
    assert acceptance is not None
    wanted = float(spec_comparison.config.id.rpartition("-")[2])
    tokens = sum(run.counters.generation_tokens or 0 for run in spec_comparison.comparison.runs if run.arm == "specdec")
    near = 0.05 if tokens > TOKENS_FOR_A_NARROW_ANSWER else 0.1
    assert acceptance.acceptance_length == pytest.approx(wanted, abs=near)


@pytest.mark.spec_load(concurrency=[1, 8, 32, 128], num_requests=12)
@pytest.mark.spec_slo(min_crossover_concurrency=8)
def test_crossover(spec_comparison: SpecComparison) -> None:
    """The load at which the gain is gone, from what was measured above."""
    assert [point.load.concurrency for point in spec_comparison.points] == [1, 8, 32, 128]
