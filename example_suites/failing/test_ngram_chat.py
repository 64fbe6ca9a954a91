"""A gate that fails, and should: ngram drafts what the conversation has said before, and chat seldom repeats itself.

Its acceptance length looks fine, because it counts only the few steps that draft at all. The time per token tells the truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison


@pytest.mark.spec_load(workload="chat", concurrency=2, num_requests=12, max_tokens=24)
@pytest.mark.spec_slo(tpot_gain=0.3, ttft_mean_ms=3000)
def test_chat(spec_comparison: SpecComparison) -> None:
    """Expected: FAILED, with the table and the reason."""
