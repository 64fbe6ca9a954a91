"""All that a gate may print, in 80 columns and in 200: it fits, and says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.course import WarmUpRecord
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.results import GateRecord
from pytest_specdec.core.schedule import KPoint
from pytest_specdec.core.summary import summarise
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict
from pytest_specdec.reporting.change_table import change_lines
from pytest_specdec.reporting.layout import fitted
from pytest_specdec.reporting.schedule_lines import gain_table
from pytest_specdec.reporting.sweep_table import sweep_lines
from pytest_specdec.reporting.terminal import failure_lines, session_lines
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = "tests/serving/test_chat_latency.py::test_chat_is_faster_for_everybody[eagle3-llama-3.1-8b]"
VERDICTS = (
    Verdict(Requirement("tpot_gain", 0.3), Estimate(0.214, 0.189, 0.238, 0.9875), "FAIL", "higher", "fraction"),
    Verdict(
        Requirement("min_acceptance_length", 1.5, part="code", at="concurrency 8"),
        Estimate(1.31, 1.28, 1.34, 0.9875),
        "FAIL",
        "higher",
        "tokens",
    ),
    Verdict(
        Requirement("ttft_p95_ms", 250),
        Estimate(246, 231, 262, 0.95),
        "unsure",
        "lower",
        "ms",
        advice="about 9 rounds would settle it; with 4 the smallest gain that could be proven is 23.1 %, provable now: 19 %",
    ),
)
GATE = GateRecord(
    NODE,
    "eagle3-llama-3.1-8b",
    "failed",
    comparison="eagle3/chat",
    verdicts=VERDICTS,
    message="2 of 3 objectives missed",
    explanation=("Most drafts are rejected at their first token: the draft seldom agrees with the target.",) * 2,
    advice="stop: acceptance length is below 1.50, which a step that costs 1.03 plain steps cannot pay for at this load",
)
COMPARISON = replace(
    build_comparison(k=7, acceptance=(0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2), noise=0.05),
    device="NVIDIA H200",
    notes=("the warm-up of specdec ended while its figures still changed (TPOT 9.2, 6.2, 5.1 ms, TTFT 210, 190 ms)",),
    changes=("on the speculating side only: --max-num-seqs 256 instead of 1024, for want of memory for the draft",),
    warm_ups=(WarmUpRecord("specdec", 1, 4, 8, (0.009, 0.006, 0.005), (0.2, 0.1, 0.1), True),),
)
SWEEP = [build_comparison(load=LoadSpec(concurrency=n, num_requests=16, max_tokens=33), noise=0.02) for n in (1, 8, 32)]


def failure(width: int) -> list[str]:
    return failure_lines(
        GATE,
        COMPARISON,
        summarise(COMPARISON),
        result_path=".specdec/results.json",
        again=f"pytest '{NODE}' --specdec-config=configs/eagle3.json",
        width=width,
        course=True,
        sweep=sweep_lines(SWEEP, width=width - 2),
    )


def session(width: int) -> list[str]:
    measured = {f"eagle3/chat#{n}": one for n, one in enumerate((COMPARISON, replace(COMPARISON, config_id="b")))}
    gates = (replace(GATE, comparison="eagle3/chat#0"), replace(GATE, outcome="passed", verdicts=VERDICTS[2:]))
    return fitted(session_lines(gates, measured, verbose=True, width=width), width)


def change(width: int) -> list[str]:
    from pytest_specdec.core.saved import Saved

    slower = replace(build_comparison(tpot_spec_ms=8.0, noise=0.02), config_id="eagle3-llama-3.1-8b")
    saved = Saved("20260101T120000Z-abcdef0-main", replace(build_comparison(noise=0.02), config_id=slower.config_id))
    return fitted(change_lines(slower, saved, width=width), width)


def schedule(width: int) -> list[str]:
    points = [KPoint(load, k, 0.3 - k / 50) for load in (1, 128) for k in range(1, 10)]
    return gain_table(points, ((1, 64, 4), (65, 128, 0)), width=width)


EVERYTHING = [failure, session, change, schedule]


@pytest.mark.parametrize("lines_of", EVERYTHING)
@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(lines_of: Callable[[int], list[str]], width: int) -> None:
    words_alone = [line for line in lines_of(width) if len(line) > width]
    assert [line for line in words_alone if NODE not in line] == []


@pytest.mark.parametrize("lines_of", EVERYTHING)
def test_narrow_lines_say_what_wide_ones_do(lines_of: Callable[[int], list[str]]) -> None:
    narrow, wide = (sorted(" ".join(lines_of(width)).replace(" \\ ", " ").split()) for width in (80, 200))
    assert narrow == wide


@pytest.mark.parametrize("lines_of", EVERYTHING)
def test_a_wide_terminal_is_used_for_tables_and_not_for_sentences(lines_of: Callable[[int], list[str]]) -> None:
    assert len(lines_of(200)) < len(lines_of(60))
    sentences = [line for line in failure(200) if "Most drafts" in line or "cannot pay" in line]
    assert sentences
    assert all(len(line) <= 108 for line in sentences)


def test_a_verdict_that_takes_two_lines_has_them_below_each_other() -> None:
    assert failure(80)[:4] == [
        "          objective",
        "          required     measured                98.75 % interval (4 looks)",
        "  FAIL    tpot_gain",
        "          >= 30.0 %    21.4 %     (-8.6 pp)    18.9 .. 23.8 %",
    ]
