"""The figures of a comparison that every report shows, computed once and without judging anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.acceptance import Acceptance, acceptance_of
from pytest_specdec.core.contributions import EVERY_STEP
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.metrics import (
    acceptance_length_for,
    draft_coverage,
    step_ratio,
    tokens_per_step,
    tokens_per_step_for_gain,
)
from pytest_specdec.core.throughput import mean_throughput

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.samples import Arm, Comparison


@dataclass(frozen=True)
class ArmSummary:
    """One arm over all rounds; None for what could not be measured."""

    tpot_s: float | None
    """Geometric mean over the requests that have a TPOT in both arms, so that the gain follows exactly from the two."""
    ttft_p95_s: float | None
    throughput_tok_s: float | None
    """Over the steady window; None at a request rate that the arm keeps up with, where it is only the offered load."""
    requests: int
    failed: int


@dataclass(frozen=True)
class Summary:
    """Both arms, and what speculation did; None for what could not be measured or does not exist."""

    baseline: ArmSummary
    specdec: ArmSummary
    speedup: float | None
    """How many times faster per token: ``TPOT_base / TPOT_spec``."""
    acceptance: Acceptance | None
    """With joint and conditional acceptance per position; None where the server counts no drafts."""
    draft_coverage: float | None
    tokens_per_step: float | None
    drafted_per_draft: float | None
    """Mean tokens proposed per draft: K, where every draft is full."""
    step_ratio: float | None
    """What a decode step of the speculating server costs in plain steps: also the break-even in tokens per step."""
    wasted_share: float | None
    """Share of drafted tokens that were rejected."""

    @property
    def tpot_gain(self) -> float | None:
        """``1 - TPOT_spec / TPOT_base``."""
        return None if self.speedup is None else 1 - 1 / self.speedup

    @property
    def break_even_tokens_per_step(self) -> float | None:
        """Tokens per step below which speculation loses."""
        return self.step_ratio

    @property
    def break_even_acceptance_length(self) -> float | None:
        """The same as an acceptance length; only where every step drafts."""
        return None if self.step_ratio is None else self.acceptance_length_for(self.step_ratio)

    def tokens_per_step_for_gain(self, gain: float) -> float | None:
        """Tokens per step that a TPOT gain would need at this step ratio."""
        return None if self.step_ratio is None else tokens_per_step_for_gain(gain, step_ratio=self.step_ratio)

    def acceptance_length_for_gain(self, gain: float) -> float | None:
        """The same as an acceptance length; only where every step drafts."""
        needed = self.tokens_per_step_for_gain(gain)
        return None if needed is None else self.acceptance_length_for(needed)

    def acceptance_length_for(self, tokens: float) -> float | None:
        """So many tokens per step as an acceptance length; None at a coverage below 0.99, where the two differ."""
        if self.draft_coverage is None or self.draft_coverage < EVERY_STEP:
            return None
        return acceptance_length_for(tokens, coverage=self.draft_coverage)


def summarise(comparison: Comparison) -> Summary:
    """The figures of everything measured so far; never raises, because a report of a bad measurement needs them most."""
    evidence = Evidence(comparison, comparison.load.confidence)
    base_s = spec_s = None
    try:
        pairs = evidence.pairs("tpot")
        base_s, spec_s = _geometric_mean(pairs.base), _geometric_mean(pairs.spec)
    except CannotMeasure:
        pass
    counters = evidence.counters
    acceptance = acceptance_of(counters) if _counts_drafts(evidence) else None
    per_step = tokens_per_step(counters)
    ratio = None
    if base_s and spec_s and per_step is not None:
        ratio = step_ratio(tpot_base_s=base_s, tpot_spec_s=spec_s, tokens_per_step=per_step)
    return Summary(
        baseline=_arm(comparison, "baseline", base_s, evidence),
        specdec=_arm(comparison, "specdec", spec_s, evidence),
        speedup=base_s / spec_s if base_s and spec_s else None,
        acceptance=acceptance,
        draft_coverage=draft_coverage(counters),
        tokens_per_step=per_step,
        drafted_per_draft=acceptance.draft_tokens / acceptance.drafts if acceptance and acceptance.drafts else None,
        step_ratio=ratio,
        wasted_share=1 - acceptance.acceptance_rate if acceptance and acceptance.acceptance_rate is not None else None,
    )


def _counts_drafts(evidence: Evidence) -> bool:
    counters = evidence.counters
    return None not in (counters.drafts, counters.draft_tokens, counters.accepted_tokens)


def _arm(comparison: Comparison, arm: Arm, tpot_s: float | None, evidence: Evidence) -> ArmSummary:
    runs = comparison.arm(arm)
    requests = sum(len(run.samples) for run in runs)
    successes = sum(int(run.table.ok.sum()) for run in runs)
    try:
        ttft_s = (evidence.base if arm == "baseline" else evidence.spec).ttft_s
        ttft_p95_s = float(np.quantile(ttft_s, 0.95))
    except CannotMeasure:
        ttft_p95_s = None
    return ArmSummary(
        tpot_s=tpot_s,
        ttft_p95_s=ttft_p95_s,
        throughput_tok_s=mean_throughput(evidence, arm),
        requests=requests,
        failed=requests - successes,
    )


def _geometric_mean(values: Floats) -> float:
    return float(np.exp(np.log(values).mean()))
