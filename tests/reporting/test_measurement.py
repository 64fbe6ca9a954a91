"""The figures below the table, against lines written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict
from pytest_specdec.reporting.measurement import conditions, measurement_lines

if TYPE_CHECKING:
    from pytest_specdec.core.acceptance import Acceptance
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary


def gain(required: float) -> Verdict:
    return Verdict(Requirement("tpot_gain", required), Estimate(0.2), "FAIL", "higher", "fraction")


def test_figures_of_a_comparison(comparison: Comparison, summary: Summary) -> None:
    assert measurement_lines(comparison, summary, [gain(0.3)]) == [
        "baseline   TPOT 11.84 ms   TTFT p95 233 ms   571 tok/s",
        "specdec    TPOT  9.31 ms   TTFT p95 246 ms   686 tok/s    1.27x faster per token",
        "accepted by draft position (joint)         0: 0.24   1: 0.05   2: 0.02   (3 drafted, every step drafts)",
        "                           (conditional)   0: 0.24   1: 0.21   2: 0.40",
        "acceptance length 1.31, acceptance rate 10.3 %, 1.31 tokens per step",
        "a speculative step costs 1.03 plain steps: break-even at acceptance length 1.03, a 30 % gain needs 1.47",
        "workload chat, 4 rounds of 64 requests at concurrency 8, alternating; NVIDIA H200, vllm 0.26.0",
    ]


def test_without_a_required_gain_only_the_break_even_is_told(comparison: Comparison, summary: Summary) -> None:
    for verdicts in ([], [gain(-0.05)]):
        assert "a speculative step costs 1.03 plain steps: break-even at acceptance length 1.03" in measurement_lines(
            comparison, summary, verdicts
        )


def test_where_few_steps_draft_the_break_even_is_tokens_per_step(comparison: Comparison, summary: Summary) -> None:
    seldom = replace(summary, draft_coverage=0.524, drafted_per_draft=3.85)
    lines = measurement_lines(comparison, seldom, [gain(0.3)])
    assert lines[2].endswith("(3.85 drafted on average, 52 % of the steps draft)")
    assert (
        lines[5]
        == "a speculative step costs 1.03 plain steps: break-even at 1.03 tokens per step, a 30 % gain needs 1.47"
    )


def test_slower_is_called_slower(comparison: Comparison, summary: Summary) -> None:
    lines = measurement_lines(comparison, replace(summary, speedup=0.8))
    assert lines[1].endswith("    1.25x slower per token")


def test_request_rate_has_no_throughput_to_show(comparison: Comparison, summary: Summary) -> None:
    offered = replace(
        summary,
        baseline=replace(summary.baseline, throughput_tok_s=None),
        specdec=replace(summary.specdec, throughput_tok_s=None),
    )
    assert measurement_lines(comparison, offered)[0] == "baseline   TPOT 11.84 ms   TTFT p95 233 ms"


def test_short_first_tokens_keep_a_decimal(comparison: Comparison, summary: Summary) -> None:
    quick = replace(
        summary,
        baseline=replace(summary.baseline, ttft_p95_s=0.0984),
        specdec=replace(summary.specdec, ttft_p95_s=0.0071),
    )
    lines = measurement_lines(comparison, quick)
    assert "TTFT p95 98.4 ms" in lines[0]
    assert "TTFT p95  7.1 ms" in lines[1]


def test_figure_that_one_arm_lacks_is_a_dash(comparison: Comparison, summary: Summary) -> None:
    half = replace(summary, specdec=replace(summary.specdec, ttft_p95_s=None), speedup=None)
    assert measurement_lines(comparison, half)[1] == "specdec    TPOT  9.31 ms   TTFT p95   - ms   686 tok/s"


def test_failed_requests_are_counted(comparison: Comparison, summary: Summary) -> None:
    failing = replace(summary, specdec=replace(summary.specdec, failed=2))
    assert "failed requests, left out: 2 of specdec" in measurement_lines(comparison, failing)


def test_undefined_conditional_is_a_dash(comparison: Comparison, summary: Summary, acceptance: Acceptance) -> None:
    none_accepted = replace(acceptance, per_position=(0.0, 0.0), conditional=(0.0, None))
    lines = measurement_lines(comparison, replace(summary, acceptance=none_accepted))
    assert lines[3] == "                           (conditional)   0: 0.00   1: -"


def test_no_drafts_is_said_instead_of_figures(comparison: Comparison, summary: Summary, acceptance: Acceptance) -> None:
    without = replace(acceptance, acceptance_length=None, acceptance_rate=None, per_position=None, conditional=None)
    lines = measurement_lines(comparison, replace(summary, acceptance=without, step_ratio=None))
    assert lines[2:-1] == ["no step drafted: acceptance is undefined"]


def test_unknown_acceptance_is_said(comparison: Comparison, summary: Summary) -> None:
    lines = measurement_lines(comparison, replace(summary, acceptance=None, step_ratio=None))
    assert lines[2:-1] == ["acceptance unknown: the speculating server counts no drafts"]


def test_notes_and_changes_are_always_listed(comparison: Comparison, summary: Summary) -> None:
    labelled = replace(comparison, notes=("acceptance is synthetic",), changes=("--gpu-memory-utilization 0.4",))
    assert measurement_lines(labelled, summary)[-2:] == [
        "note: acceptance is synthetic",
        "we changed, on both sides: --gpu-memory-utilization 0.4",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"device": None}, "workload chat, 4 rounds of 64 requests at concurrency 8, alternating; vllm 0.26.0"),
        ({"device": None, "servers": ()}, "workload chat, 4 rounds of 64 requests at concurrency 8, alternating"),
        (
            {"load": LoadSpec(request_rate=0.5, concurrency=None)},
            "workload chat, 4 rounds of 64 requests at 0.5 per second, alternating; NVIDIA H200, vllm 0.26.0",
        ),
    ],
)
def test_conditions_name_what_is_known(comparison: Comparison, changes: dict[str, object], line: str) -> None:
    assert conditions(replace(comparison, **changes)) == line  # type: ignore[arg-type]  # the names are checked by replace


def test_one_round_does_not_alternate(comparison: Comparison) -> None:
    once = replace(comparison, runs=comparison.runs[:2])
    assert conditions(once) == "workload chat, 1 round of 64 requests at concurrency 8; NVIDIA H200, vllm 0.26.0"


def test_servers_of_different_versions_are_both_named(comparison: Comparison) -> None:
    newer = replace(comparison.servers[1], version="0.32.0")
    mixed = replace(comparison, servers=(comparison.servers[0], newer))
    assert conditions(mixed).endswith("NVIDIA H200, vllm 0.26.0, vllm 0.32.0")
