"""256 streams at once on a GPU, which is more than one API server process can write. Run by ``streams.sh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison


@pytest.mark.spec_load(workload="chat", concurrency=256, num_requests=1024, max_tokens=64, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(tpot_gain=-4.0)
def test_many_streams(spec_comparison: SpecComparison) -> None:
    """Is the client fast enough? A client that is not makes this an error."""
    assert max(run.client.cpu_share for run in spec_comparison.comparison.runs) < 1
