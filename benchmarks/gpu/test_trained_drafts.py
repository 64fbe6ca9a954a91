"""SmolLM2-135M-Instruct with its trained drafts on a GPU: greedy and sampled, three classes of prompts. Run by ``trained_drafts.sh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison

MAIN = {"load": "main", "max_tokens": 128}
DRAFTS = ("eagle3", "draft", "ngram", "suffix")


@pytest.mark.spec_load(workload="code", **MAIN)
@pytest.mark.spec_slo(tpot_gain=0.1, min_acceptance_length=1.5, configs=DRAFTS)
def test_code_greedy(spec_comparison: SpecComparison) -> None:
    """Predictable text: what speculation is for."""


@pytest.mark.spec_load(workload="chat", **MAIN)
@pytest.mark.spec_slo(tpot_gain=-4.0, min_acceptance_length=1.0, configs=DRAFTS)
def test_chat_greedy(spec_comparison: SpecComparison) -> None:
    """Free text: the figures are the result."""


@pytest.mark.spec_load(workload="chat", temperature=0.8, **MAIN)
@pytest.mark.spec_slo(tpot_gain=-4.0, min_acceptance_length=1.0, configs=DRAFTS)
def test_chat_sampled(spec_comparison: SpecComparison) -> None:
    """Sampling accepts less; the figures are the result."""


@pytest.mark.spec_load(workload="chat", request_rate=50, num_requests=500, max_tokens=64, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(tpot_gain=-4.0, configs="eagle3")
def test_many_arrivals(spec_comparison: SpecComparison) -> None:
    """Is the client fast enough for 50 requests a second? A client that is not makes this an error."""
    assert max(run.client.cpu_share for run in spec_comparison.comparison.runs) < 1


@pytest.mark.spec_load(workload="chat", concurrency=8, num_requests=32, max_tokens=64, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(lossless=True, configs=("eagle3", "ngram"))
def test_lossless_greedy(spec_comparison: SpecComparison) -> None:
    """Which answers differ, and whether those are near ties."""


@pytest.mark.spec_load(
    workload="chat", concurrency=8, num_requests=32, max_tokens=64, rounds=2, max_rounds=2, temperature=0.8
)
@pytest.mark.spec_slo(lossless=True, configs=("eagle3", "ngram"))
def test_lossless_sampled(spec_comparison: SpecComparison) -> None:
    """Does speculation change the distribution of the first tokens?"""
