"""A gate like any other: where its servers run is the conftest's matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison


@pytest.mark.spec_load(workload="chat", concurrency=8, num_requests=64, max_tokens=128)
@pytest.mark.spec_slo(tpot_gain=0.1, min_acceptance_length=1.5)
def test_chat(spec_comparison: SpecComparison) -> None:
    """The plugin judges the objectives."""
