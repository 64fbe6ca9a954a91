"""One comparison and its figures, as the README shows them; tests replace what they are about."""

from __future__ import annotations

import pytest

from pytest_specdec.core.acceptance import Acceptance
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import (
    ARMS,
    ArmRun,
    ClientHealth,
    Comparison,
    ServerCounters,
    ServerRecord,
    WorkloadRecord,
)
from pytest_specdec.core.summary import ArmSummary, Summary


@pytest.fixture
def comparison() -> Comparison:
    """Four rounds without samples: enough for everything that figures do not come from."""
    return Comparison(
        config_id="eagle3",
        method="eagle3",
        num_speculative_tokens=3,
        load=LoadSpec(),
        workload=WorkloadRecord("chat", "chat.jsonl", "00", 64),
        servers=tuple(ServerRecord(arm, ("vllm", "serve"), {}, "m", "0.26.0", f"logs/{arm}.log", 31.5) for arm in ARMS),
        runs=tuple(
            ArmRun(arm, number, 0, 1.8e9, 10.0, (), ServerCounters(), ClientHealth(0.0, 0.0, 0.0))
            for number in range(4)
            for arm in ARMS
        ),
        device="NVIDIA H200",
    )


@pytest.fixture
def acceptance() -> Acceptance:
    """31 of 300 draft tokens, in 100 drafts of three."""
    return Acceptance(
        drafts=100,
        draft_tokens=300,
        accepted_tokens=31,
        acceptance_length=1.31,
        acceptance_rate=31 / 300,
        per_position=(0.24, 0.05, 0.02),
        conditional=(0.24, 5 / 24, 0.4),
    )


@pytest.fixture
def summary(acceptance: Acceptance) -> Summary:
    """A draft that is seldom right: 1.27 times faster."""
    return Summary(
        baseline=ArmSummary(tpot_s=0.011_84, ttft_p95_s=0.233, throughput_tok_s=571.2, requests=256, failed=0),
        specdec=ArmSummary(tpot_s=0.009_31, ttft_p95_s=0.246, throughput_tok_s=686.4, requests=256, failed=0),
        speedup=11.84 / 9.31,
        acceptance=acceptance,
        draft_coverage=1.0,
        tokens_per_step=1.31,
        drafted_per_draft=3.0,
        step_ratio=9.31 * 1.31 / 11.84,
        wasted_share=1 - 31 / 300,
    )
