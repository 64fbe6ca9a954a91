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
    pytest.param(1, marks=pytest.mark.spec_load(concurrency=1, num_requests=12), id="c1"),
    pytest.param(8, marks=pytest.mark.spec_load(concurrency=8, num_requests=32), id="c8"),
    pytest.param(32, marks=pytest.mark.spec_load(concurrency=32, num_requests=96), id="c32"),
]


@pytest.mark.parametrize("concurrency", LOADS)
@pytest.mark.spec_slo(tpot_gain=0.2)
@pytest.mark.spec_slo(tpot_gain=0.0, configs="head-1.5")
def test_faster(spec_comparison: SpecComparison, concurrency: int) -> None:
    """A light head gains; the 0.6B-shaped draft is slower although 2.5 tokens a step are accepted, and must FAIL."""
    assert spec_comparison.load.concurrency == concurrency
    acceptance = spec_comparison.summary.acceptance
    assert acceptance is not None
    wanted = float(spec_comparison.config.id.rpartition("-")[2])
    assert acceptance.acceptance_length == pytest.approx(wanted, abs=0.05)
