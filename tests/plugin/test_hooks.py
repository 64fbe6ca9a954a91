"""What another plugin can add: objectives, notes, the last word on verdicts."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec import hookspecs
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

HOOKS = [name for name in vars(hookspecs) if name.startswith("pytest_specdec_")]
OBJECTIVE = """
from pytest_specdec import OwnObjective

def tokens_per_request(baseline, specdec):
    return sum(sample.completion_tokens for sample in specdec.successes) / len(specdec.successes)

def pytest_specdec_objectives():
    return [OwnObjective({name!r}, {unit!r}, "higher", "mean length of answers", tokens_per_request)]
"""


def example_of(hook: str) -> str:
    """The code of a hook's docstring."""
    text = inspect.getdoc(getattr(hookspecs, hook)) or ""
    lines = text.partition("::\n")[2].splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line))


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_every_hook_is_a_conftest_that_pytest_accepts(hook: str, pytester: pytest.Pytester) -> None:
    example = example_of(hook)
    defined = [node.name for node in ast.walk(ast.parse(example)) if isinstance(node, ast.FunctionDef)]
    assert hook in defined
    pytester.makeconftest(example)
    pytester.makepyfile("def test_one():\n    pass\n")
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.fixture
def run_gate(
    pytester: pytest.Pytester, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> Callable[..., pytest.RunResult]:
    def run(conftest: str, slo: str = "tpot_gain=0.1", *arguments: str) -> pytest.RunResult:
        pytester.makeconftest(conftest)
        write_config()
        write_gate(slo)
        return pytester.runpytest("--specdec-config=fake.json", *arguments)

    return run


@pytest.mark.parametrize(("required", "outcome"), [(5, "passed"), (500, "failed")])
def test_an_objective_of_ones_own_is_judged_by_its_rounds(
    required: int, outcome: str, run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = run_gate(OBJECTIVE.format(name="min_answer_tokens", unit="tokens"), f"min_answer_tokens={required}")
    result.assert_outcomes(**{outcome: 1})
    (gate,) = read_result(pytester.path / ".specdec" / "results.json").gates
    (verdict,) = gate.verdicts
    assert (verdict.requirement.objective, verdict.unit, verdict.estimate.samples) == ("min_answer_tokens", "tokens", 3)
    assert verdict.estimate.basis == "t over 3 rounds"
    assert "min_answer_tokens" not in REGISTRY


def test_marks_know_it_before_anything_is_measured(pytester: pytest.Pytester, write_gate: Callable[..., Any]) -> None:
    pytester.makeconftest(OBJECTIVE.format(name="min_answer_tokens", unit="tokens"))
    write_gate("min_answer_tokens='many'")
    result = pytester.runpytest("--co")
    result.stdout.fnmatch_lines(["*min_answer_tokens='many': needs a number, not a string*"])


@pytest.mark.parametrize(
    ("name", "unit", "said"),
    [
        ("tpot_gain", "tokens", "*objective 'tpot_gain': there is one of that name already*"),
        ("min-answer", "tokens", "*objective 'min-answer': marks cannot name that*"),
        ("min_answer", "bytes", "*unit 'bytes' does not exist; there are fraction, ms,*"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(name: str, unit: str, said: str, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(OBJECTIVE.format(name=name, unit=unit))
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "min_answer" not in REGISTRY
    assert "tpot_gain" in REGISTRY


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "*min_answer_tokens: round 1 has no figure (None)*"),
        ("return float('nan')", "*min_answer_tokens: round 1 has no figure (nan)*"),
        ("return 1 / 0", "*min_answer_tokens: its function failed in round 1: ZeroDivisionError: division by zero*"),
    ],
)
def test_a_round_without_a_figure_is_an_error(body: str, said: str, run_gate: Callable[..., pytest.RunResult]) -> None:
    conftest = OBJECTIVE.format(name="min_answer_tokens", unit="tokens")
    body_before = next(line for line in conftest.splitlines() if "return sum" in line)
    result = run_gate(conftest.replace(body_before, f"    {body}"), "min_answer_tokens=5")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_notes_stand_below_the_figures(run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    result = run_gate(
        "def pytest_specdec_notes(comparison):\n    return [f'seen by the cluster: {comparison.rounds} rounds']\n",
        "tpot_gain=0.99",
    )
    result.stdout.fnmatch_lines(["*note: seen by the cluster: 3 rounds*"])
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert "seen by the cluster: 3 rounds" in comparison.notes


LAST_WORD = """
from dataclasses import replace

def pytest_specdec_replace_verdicts(verdicts):
    return [replace(verdict, outcome={outcome!r}) for verdict in verdicts][:{most}]
"""


@pytest.mark.parametrize(
    ("slo", "outcome", "judged"), [("tpot_gain=0.99", "ok", "passed"), ("tpot_gain=0.1", "FAIL", "failed")]
)
def test_a_replaced_verdict_counts_and_is_said_to_be_replaced(
    slo: str, outcome: str, judged: str, run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = run_gate(LAST_WORD.format(outcome=outcome, most=9), slo)
    result.assert_outcomes(**{judged: 1})
    result.stdout.fnmatch_lines(["test_gate.py::test_gate?fake?: replaced by a plugin*"])
    (gate,) = read_result(pytester.path / ".specdec" / "results.json").gates
    assert [verdict.advice for verdict in gate.verdicts] == ["replaced by a plugin (pytest_specdec_replace_verdicts)"]


def test_a_verdict_that_stays_is_not_said_to_be_replaced(run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate(LAST_WORD.format(outcome="ok", most=9))
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*replaced by a plugin*")


def test_a_verdict_may_not_vanish(run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate(LAST_WORD.format(outcome="ok", most=1), "tpot_gain=0.1, min_acceptance_length=1.0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*must return one verdict for each that it was given*"])
