"""Gates whose requests ask for JSON or offer tools: sent to both servers, and answers that break are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.answer_form import AnswerForm
    from pytest_specdec.core.samples import Comparison

REQUESTS = 16
JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}
TOOLS = {
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
    "tool_choice": "auto",
}
GATE = f"""
    import pytest

    @pytest.mark.spec_load(workload="prompts", concurrency=4, num_requests={REQUESTS}, max_tokens=64)
    @pytest.mark.spec_slo(min_acceptance_length=1.0)
    def test_gate(spec_comparison):
        pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, write_config: Callable[..., Any]) -> Callable[..., pytest.RunResult]:
    """One gate against fakes whose answers all end by themselves."""

    def call(asked: dict[str, Any], fake: dict[str, Any], **serve: Any) -> pytest.RunResult:
        lines = ({"messages": [{"role": "user", "content": f"Number {n}"}], **asked} for n in range(REQUESTS))
        (pytester.path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
        write_config(
            fake={"answer_tokens": [8, 24], **fake},
            serve=serve,
            workloads={"prompts": {"path": "prompts.jsonl"}},
            measure={"rounds": 2, "max_rounds": 2},
        )
        pytester.makepyfile(test_gate=GATE)
        return pytester.runpytest("--specdec-config=fake.json")

    return call


def comparison_in(pytester: pytest.Pytester) -> Comparison:
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    return comparison


def forms(comparison: Comparison, arm: Any) -> list[AnswerForm]:
    return [sample.form for run in comparison.arm(arm) for sample in run.samples if sample.form is not None]


@pytest.mark.parametrize("asked", [JSON, TOOLS], ids=["json", "tools"])
def test_both_servers_are_asked(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], asked: dict[str, Any]
) -> None:
    result = run(asked, {}, tool_call_parser="hermes", enable_auto_tool_choice=True)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*form that was asked for*")
    comparison = comparison_in(pytester)
    for arm in ("baseline", "specdec"):
        assert [form.as_asked for form in forms(comparison, arm)] == [True] * 2 * REQUESTS
        assert {form.calls for form in forms(comparison, arm)} == {True if asked is TOOLS else None}


@pytest.mark.parametrize("asked", [JSON, TOOLS], ids=["json", "tools"])
def test_answers_that_break_under_speculation_are_told(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], asked: dict[str, Any]
) -> None:
    result = run(asked, {"specdec": {"broken_form": 1.0}}, tool_call_parser="hermes", enable_auto_tool_choice=True)
    result.stdout.fnmatch_lines(
        [
            "*100.0 % of the speculating server's answers do not have the form that was asked for, 0.0 % of the baseline's*"
        ]
    )
    comparison = comparison_in(pytester)
    for arm, expected in (("specdec", False), ("baseline", True)):
        assert [form.as_asked for form in forms(comparison, arm)] == [expected] * 2 * REQUESTS


def test_tools_without_a_parser_are_an_error_that_says_what_to_set(run: Callable[..., pytest.RunResult]) -> None:
    result = run(TOOLS, {})
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Set enable_auto_tool_choice: true and tool_call_parser in `serve`*"])
