"""Failure section, session summary and header, against text written by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import Finding
from pytest_specdec.core.recommendation import Recommendation
from pytest_specdec.core.results import GateOutcome, GateRecord
from pytest_specdec.core.verdict import Estimate, Outcome, Requirement, Verdict
from pytest_specdec.reporting import terminal
from pytest_specdec.reporting.terminal import failure_lines, header_lines, session_lines

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary

NODE = "tests/test_chat.py::test_chat[eagle3]"
GAIN = Verdict(Requirement("tpot_gain", 0.3), Estimate(0.214, 0.189, 0.238, 0.9875), "FAIL", "higher", "fraction")
LENGTH = Verdict(
    Requirement("min_acceptance_length", 1.5), Estimate(1.31, 1.28, 1.34, 0.9875), "FAIL", "higher", "tokens"
)
TTFT = Verdict(
    Requirement("ttft_p95_ms", 250),
    Estimate(246, 231, 262, 0.9875),
    "unsure",
    "lower",
    "ms",
    advice="about 9 rounds would settle it",
)


def gate(outcome: GateOutcome = "failed", *verdicts: Verdict, **fields: Any) -> GateRecord:
    return GateRecord(NODE, "eagle3", outcome, comparison="eagle3/chat", verdicts=verdicts, **fields)


def test_failure_section(comparison: Comparison, summary: Summary) -> None:
    explanation = (
        "Most drafts are rejected at their first token: the draft seldom agrees with the target.",
        "Check that it was trained for this target and that both use one chat template.",
    )
    record = gate("failed", GAIN, LENGTH, TTFT, explanation=explanation, advice="stop: acceptance length below 1.5")
    lines = failure_lines(record, comparison, summary, result_path=".specdec/results.json", again=f"pytest '{NODE}'")
    assert lines == [
        "          objective                required     measured                98.75 % interval (4 looks)",
        "  FAIL    tpot_gain                >= 30.0 %    21.4 %     (-8.6 pp)    18.9 .. 23.8 %",
        "  FAIL    min_acceptance_length    >= 1.50      1.31       (-0.19)      1.28 .. 1.34",
        "  unsure  ttft_p95_ms              <=  250       246       (-4)          231 .. 262",
        "  ttft_p95_ms: about 9 rounds would settle it",
        "",
        "  baseline   TPOT 11.84 ms   TTFT p95 233 ms   571 tok/s",
        "  specdec    TPOT  9.31 ms   TTFT p95 246 ms   686 tok/s    1.27x faster per token",
        "  accepted by draft position (joint)         0: 0.24   1: 0.05   2: 0.02   (3 drafted, every step drafts)",
        "                             (conditional)   0: 0.24   1: 0.21   2: 0.40",
        "  acceptance length 1.31, acceptance rate 10.3 %, 1.31 tokens per step",
        "  a speculative step costs 1.03 plain steps: break-even at acceptance length 1.03, a 30 % gain needs 1.47",
        "  workload chat, 4 rounds of 64 requests at concurrency 8, alternating; NVIDIA H200, vllm 0.26.0",
        "",
        "  Most drafts are rejected at their first token: the draft seldom agrees with the target. Check that it was",
        "  trained for this target and that both use one chat template.",
        "",
        "  advice: stop: acceptance length below 1.5",
        "",
        "  log     logs/specdec.log",
        "  result  .specdec/results.json",
        f"  again   pytest '{NODE}'",
    ]


def test_section_without_explanation_or_pointers_has_no_holes(comparison: Comparison, summary: Summary) -> None:
    lines = failure_lines(gate("failed", GAIN), replace(comparison, servers=()), summary)
    assert lines[-1].startswith("  workload chat")
    assert lines.count("") == 1


def test_log_below_the_current_folder_is_shown_relative(
    comparison: Comparison, summary: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    servers = (replace(comparison.servers[1], log=str(tmp_path / ".specdec" / "specdec.log")),)
    assert failure_lines(gate(), replace(comparison, servers=servers), summary)[-1] == "  log     .specdec/specdec.log"


def test_relaunched_server_has_both_logs_and_each_once(comparison: Comparison, summary: Summary) -> None:
    first = comparison.servers[1]
    servers = (first, first, replace(first, log="logs/specdec-1.log", launch=1))
    lines = failure_lines(gate(), replace(comparison, servers=servers), summary)
    assert lines[-2:] == ["  log     logs/specdec.log", "  log     logs/specdec-1.log"]


@pytest.fixture
def summarised(monkeypatch: pytest.MonkeyPatch, summary: Summary) -> None:
    """The comparisons of these tests have no samples, so their figures are given, and there is nothing to advise."""
    monkeypatch.setattr("pytest_specdec.core.recommendation.recommendations", lambda *_: ())
    speedups = {"eagle3": summary.speedup, "ngram": 0.97}
    monkeypatch.setattr(
        "pytest_specdec.core.summary.summarise",
        lambda comparison: replace(summary, speedup=speedups[comparison.config_id]),
    )


@pytest.mark.usefixtures("summarised")
def test_session_has_a_row_per_gate(comparison: Comparison) -> None:
    broken = GateRecord("tests/test_code.py::test_code[eagle3]", "eagle3", "error", message="server died\n  see log")
    met = replace(LENGTH, requirement=replace(LENGTH.requirement, required=1.2), outcome="ok")
    unjudged_gain = gate("passed", met)
    assert session_lines([gate("failed", GAIN), unjudged_gain, broken], {"eagle3/chat": comparison}) == [
        "verdict   test                                    TPOT gain                 AL     faster",
        f"FAIL      {NODE}   21.4 % (18.9 .. 23.8 %)   1.31   1.27x",
        "          tpot_gain 21.4 % < 30 %",
        f"ok        {NODE}   21.4 %                    1.31   1.27x",
        "          min_acceptance_length 1.31 >= 1.2",
        "ERROR     tests/test_code.py::test_code[eagle3]   -                         -      -",
        "tests/test_code.py::test_code[eagle3]: server died",
        "legend: AL = acceptance length, tokens that a step with a draft yields (1 +",
        "  accepted); faster = baseline TPOT / speculating TPOT; - = not measured",
    ]


@pytest.mark.usefixtures("summarised")
def test_in_a_narrow_terminal_objectives_stay_below_their_row(comparison: Comparison) -> None:
    lines = session_lines([gate("failed", GAIN), gate("failed", TTFT)], {"eagle3/chat": comparison}, width=60)
    assert lines[:8] == [
        "verdict   test",
        "    TPOT gain                 AL     faster",
        f"FAIL      {NODE}",
        "    21.4 % (18.9 .. 23.8 %)   1.31   1.27x",
        "          tpot_gain 21.4 % < 30 %",
        f"unsure    {NODE}",
        "    21.4 %                    1.31   1.27x",
        "          ttft_p95_ms <= 250 not proven (231 .. 262)",
    ]


@pytest.mark.usefixtures("summarised")
def test_what_was_not_judged_shows_no_objective(comparison: Comparison) -> None:
    lines = session_lines([gate("skipped", replace(GAIN, outcome="ok"))], {"eagle3/chat": comparison})
    assert not any("tpot_gain" in line for line in lines)


@pytest.mark.usefixtures("summarised")
@pytest.mark.parametrize(
    ("outcome", "verdict", "shown"),
    [
        ("failed", "ok", "ok (test failed)"),
        ("passed", "unsure", "unsure (passed)"),
        ("xfailed", "FAIL", "FAIL (expected)"),
        ("failed", "unsure", "unsure"),
        ("skipped", "ok", "unjudged"),
    ],
)
def test_row_tells_when_pytest_made_something_else_of_the_verdict(
    comparison: Comparison, outcome: GateOutcome, verdict: Outcome, shown: str
) -> None:
    lines = session_lines([gate(outcome, replace(GAIN, outcome=verdict))], {"eagle3/chat": comparison})
    assert lines[1].split(NODE)[0].strip() == shown


@pytest.mark.usefixtures("summarised")
def test_advice_for_the_config_stands_last(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = Recommendation("eagle3", "chat", "stop", "acceptance length 1.31 is below 1.50")
    monkeypatch.setattr("pytest_specdec.core.recommendation.recommendations", lambda *_: (advice,))
    lines = session_lines([gate("failed", GAIN)], {"eagle3/chat": comparison})
    assert lines[-4:] == [
        "advice for eagle3, chat: stop: acceptance length 1.31 is below 1.50",
        "the advice's own thresholds, not those of your tests: TPOT gain 30.0 %,",
        "  acceptance length 1.50; --specdec-acceptance tpot_gain=0.2 (or",
        "  acceptance_length=1.3) sets another",
    ]


def test_nothing_judged_nothing_shown() -> None:
    assert session_lines([], {}) == []


@dataclass
class Config:
    """What the header reads of a config."""

    id: str = "eagle3"
    path: Path = Path("eagle3.json")
    model: str = "meta-llama/Llama-3.1-8B-Instruct"
    method: str | None = "eagle3"
    num_speculative_tokens: int | None = 2
    command: tuple[str, ...] | None = None


def header(*configs: Any, findings: tuple[Finding, ...] = ()) -> list[str]:
    return header_lines(configs, findings, Path(".specdec"))


def test_header_names_config_target_and_results() -> None:
    assert header(Config()) == [
        "specdec: eagle3 (eagle3.json): eagle3, 2 draft tokens; target meta-llama/Llama-3.1-8B-Instruct",
        "specdec results: .specdec",
    ]


def test_header_names_the_command_and_what_is_left_to_vllm() -> None:
    config = Config(method=None, num_speculative_tokens=None, command=("docker", "run", "vllm"))
    assert header(config)[0] == (
        "specdec: eagle3 (eagle3.json): method left to vLLM; target meta-llama/Llama-3.1-8B-Instruct; command docker run vllm"
    )


def test_header_shows_warnings_and_notes() -> None:
    finding = Finding("warning", "eagle3.json: speculative_config", "K is text", "Write a number.")
    assert header(Config(), findings=(finding,))[1] == (
        "specdec warning: eagle3.json: speculative_config: K is text. Write a number."
    )


def test_headline_is_there_for_the_plugin() -> None:
    assert terminal.headline([GAIN]) == "1 of 1 objective missed: tpot_gain 21.4 % < 30 %"
