"""Objectives on counters and histograms of live traffic."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.live_judging import judge_live, live_notes, live_objectives
from pytest_specdec.core.live_window import LiveArm, LiveHistogram, LiveWindow, grown
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement, Verdict

SLICES = 12
BOUNDS = (0.01, 0.025, 0.05, 0.1, math.inf)


def even(total: float) -> Any:
    return np.full(SLICES, total / SLICES)


def histogram(counts: tuple[float, ...], mean_s: float) -> LiveHistogram:
    rows = np.tile(np.array(counts) / SLICES, (SLICES, 1))
    return LiveHistogram(BOUNDS, rows, rows.sum(axis=1) * mean_s)


def arm(*, speculating: bool, tpot_ms: float = 20.0, **counts: float) -> LiveArm:
    found = {
        "finished_requests": 1200.0,
        "generation_tokens": 121_200.0,
        "prompt_tokens": 60_000.0,
        "decode_steps": 60_000.0,
    }
    found |= {"ttft_count": 1200.0, "tpot_count": 1200.0, "errors": 0.0}
    if speculating:
        found |= {"drafts": 60_000.0, "draft_tokens": 180_000.0, "accepted_tokens": 60_000.0}
    return LiveArm(
        selector=f'{{version="{"new" if speculating else "old"}"}}',
        counts={name: even(value) for name, value in (found | counts).items()},
        positions=np.tile(np.array([40_000.0, 15_000.0, 5_000.0]) / SLICES, (SLICES, 1)) if speculating else None,
        histograms={
            "tpot": histogram((0, 1100, 88, 12, 0), tpot_ms / 1000),
            "ttft": histogram((0, 0, 0, 0, 1200), 0.2),
        },
        restarts=0,
        models=frozenset({"m"}),
    )


WINDOW = LiveWindow(arm(speculating=False), arm(speculating=True, tpot_ms=14.0), 1800.0)


def verdict(objective: str, required: float, window: LiveWindow = WINDOW, part: str | None = None) -> Verdict:
    (found,) = judge_live(window, [Requirement(objective, required, part)], confidence=0.95)
    return found


@pytest.mark.parametrize(
    ("objective", "part", "value"),
    [
        ("min_acceptance_length", None, 2.0),
        ("min_acceptance_rate", None, 1 / 3),
        ("min_acceptance_at", "1", 0.25),
        ("min_tokens_per_step", None, 2.0),
        ("min_draft_coverage", None, 1.0),
        ("max_failure_share", None, 0.0),
        ("tpot_gain", None, 0.3),
        ("ttft_gain", None, 0.0),
        ("tpot_mean_ms", None, 14.0),
    ],
)
def test_figures_are_those_of_the_sums(objective: str, part: str | None, value: float) -> None:
    assert verdict(objective, 1.0, part=part).estimate.value == pytest.approx(value)


def test_percentile_is_known_to_its_bucket() -> None:
    found = verdict("tpot_p95_ms", 50.0)
    # 1140 of 1200: the 40th of the 88 in 25 .. 50 ms, as histogram_quantile has it.
    assert found.estimate.value == pytest.approx(25 + 25 * 40 / 88)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((25.0, 50.0))
    assert found.outcome == "ok"
    assert verdict("tpot_p95_ms", 24.0).outcome == "FAIL"


def test_limit_within_the_bucket_stays_unsure_and_names_provable_ones() -> None:
    found = verdict("tpot_p95_ms", 40.0)
    assert found.outcome == "unsure"
    assert found.advice.endswith("the nearest are 25 and 50 ms")


def test_percentile_that_few_requests_do_not_bound_reaches_further() -> None:
    few = histogram((0, 92, 7, 1, 0), 0.02)
    window = replace(WINDOW, specdec=replace(WINDOW.specdec, histograms={"tpot": few}))
    found = verdict("tpot_p95_ms", 50.0, window)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((10.0, 100.0))
    assert found.outcome == "unsure"


def test_percentile_beyond_the_last_bound_has_no_upper_end() -> None:
    found = verdict("ttft_p95_ms", 50.0)
    assert (found.estimate.low, found.estimate.high) == (100.0, None)
    assert found.outcome == "FAIL"
    assert verdict("ttft_p95_ms", 1e9).outcome == "unsure"


def test_slices_that_differ_widen_the_interval() -> None:
    uneven = np.linspace(0.5, 1.5, SLICES) * even(60_000)
    window = replace(
        WINDOW, specdec=replace(WINDOW.specdec, counts={**WINDOW.specdec.counts, "accepted_tokens": uneven})
    )
    estimate = verdict("min_acceptance_length", 1.5, window).estimate
    assert estimate.value == pytest.approx(2.0)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 1.7 < estimate.low < 1.9
    assert 2.1 < estimate.high < 2.3


def test_gain_that_differs_from_slice_to_slice_is_not_proven() -> None:
    noisy = np.array([0.6, 1.4] * 6) * WINDOW.specdec.histograms["tpot"].sums_s
    histograms = {**WINDOW.specdec.histograms, "tpot": replace(WINDOW.specdec.histograms["tpot"], sums_s=noisy)}
    window = replace(WINDOW, specdec=replace(WINDOW.specdec, histograms=histograms))
    assert verdict("tpot_gain", 0.25).outcome == "ok"
    unsure = verdict("tpot_gain", 0.25, window)
    assert (unsure.outcome, unsure.advice) == (
        "unsure",
        "a longer window, or more traffic, makes the interval narrower",
    )


def test_failures_count_errors_and_5xx() -> None:
    bad = arm(speculating=True, errors=6.0, http_5xx=25.0)
    found = verdict("max_failure_share", 0.01, replace(WINDOW, specdec=bad))
    assert found.estimate.value == pytest.approx(31 / 1225)
    assert found.outcome == "FAIL"


def test_no_failure_in_few_requests_proves_little() -> None:
    few = arm(speculating=True, finished_requests=60.0)
    assert verdict("max_failure_share", 0.01, replace(WINDOW, specdec=few)).outcome == "unsure"
    assert verdict("max_failure_share", 0.01).outcome == "ok"


def test_what_counters_do_not_tell_is_refused() -> None:
    for name in set(REGISTRY) - set(live_objectives()):
        with pytest.raises(CannotMeasure, match=f"{name} cannot be judged on live traffic"):
            verdict(name, 0.5)
    assert {"throughput_gain", "e2el_gain", "itl_p95_ms", "chunk_gap_p95_ms", "lossless"} <= set(REGISTRY) - set(
        live_objectives()
    )


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (replace(WINDOW, baseline=WINDOW.specdec), "the baseline speculates too"),
        (replace(WINDOW, specdec=WINDOW.baseline), "speculation is not on"),
        (replace(WINDOW, specdec=arm(speculating=True, drafts=0.0)), "speculation was not active: not one draft"),
        (replace(WINDOW, specdec=replace(WINDOW.specdec, restarts=2)), "restarted 2 times within the window"),
    ],
)
def test_numbers_that_must_not_be_believed(window: LiveWindow, said: str) -> None:
    with pytest.raises(InvalidMeasurement, match=said):
        verdict("min_acceptance_length", 1.5, window)


def test_no_traffic_is_no_verdict() -> None:
    idle = replace(WINDOW, specdec=arm(speculating=True, finished_requests=0.0))
    with pytest.raises(CannotMeasure, match=r"no request of .* ended within the window"):
        verdict("min_acceptance_length", 1.5, idle)
    burst = np.zeros(SLICES)
    burst[:2] = 30_000
    short = replace(WINDOW.specdec, counts={**WINDOW.specdec.counts, "drafts": burst, "accepted_tokens": burst})
    with pytest.raises(CannotMeasure, match="traffic in 2 of 12 slices"):
        verdict("min_acceptance_length", 1.5, replace(WINDOW, specdec=short))


def test_unlike_traffic_is_noted() -> None:
    assert len(live_notes(WINDOW)) == 1
    longer = replace(WINDOW, specdec=arm(speculating=True, prompt_tokens=120_000.0))
    assert "the mean prompt has 50 tokens in the baseline, 100 in the speculating servers" in live_notes(longer)


def test_counters_that_began_again_are_not_negative() -> None:
    values = np.array([[5.0, 9.0, 2.0, np.nan, 7.0, 8.0]])
    assert grown(values).tolist() == [[4.0, 2.0, 0.0, 0.0, 1.0]]
