"""Gates on classes of prompts: several workloads in one test, floors for each, and what is refused before any launch."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GATE = """
    import pytest

    @pytest.mark.spec_load(workload={workload}, concurrency=4, num_requests={requests}, max_tokens=12)
    @pytest.mark.spec_slo({slo})
    def test_gate(spec_comparison):
        pass
"""
TWO = {"code": {"path": "code.jsonl", "weight": 0.75}, "chat": {"path": "chat.jsonl", "weight": 0.25}}


@pytest.fixture
def gate(pytester: pytest.Pytester, write_config: Callable[..., Path]) -> Callable[..., pytest.RunResult]:
    """Run a gate on two workloads of 40 prompts each; returns pytest's result."""

    def run(workload: object, slo: str, *, requests: int = 32, **envelope: Any) -> pytest.RunResult:
        for name in ("code", "chat"):
            rows = [json.dumps({"prompt": f"{name} {n}", "category": "own"}) for n in range(40)]
            (pytester.path / f"{name}.jsonl").write_text("\n".join(rows))
        write_config(**{"workloads": TWO, "measure": {"rounds": 2, "max_rounds": 2}} | envelope)
        pytester.makepyfile(test_classes=GATE.format(workload=repr(workload), requests=requests, slo=slo))
        return pytester.runpytest("--specdec-config=fake.json")

    return run


def measured(pytester: pytest.Pytester) -> dict[str, Any]:
    results = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    (comparison,) = results["comparisons"].values()
    found: dict[str, Any] = comparison
    return found


def test_the_mix_of_the_config_sends_each_workload_its_share_and_judges_each(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate("mix", "min_class_acceptance_length=1.2, min_class_tokens_per_step={'chat': 3.9}")
    result.assert_outcomes(failed=1)
    comparison = measured(pytester)
    assert Counter(comparison["runs"][0]["samples"]["category"]) == {"code": 24, "chat": 8}
    assert comparison["workload"]["weights"] == {"code": 0.75, "chat": 0.25}
    text = result.stdout.str()
    for part in (
        "min_class_tokens_per_step[chat]",
        "min_class_acceptance_length[code]",
        "acceptance by class",
        "the traffic, weighted by requests: AL",
        "fake/mix: AL by class:",
    ):
        assert part in text


def test_a_list_sends_equal_parts(pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]) -> None:
    gate(["code", "chat"], "min_class_acceptance_length={'code': 1.2}", requests=16).assert_outcomes(passed=1)
    comparison = measured(pytester)
    assert Counter(comparison["runs"][0]["samples"]["category"]) == {"code": 8, "chat": 8}
    assert comparison["workload"]["weights"] == {"code": 0.75, "chat": 0.25}


def refused(result: pytest.RunResult, pytester: pytest.Pytester, *messages: str) -> None:
    text = result.stdout.str()
    assert result.ret != 0
    for message in messages:
        assert message in text
    assert not list((pytester.path / ".specdec").glob("**/*.log")), "a server was started"


def test_a_class_too_small_to_judge_is_an_error_that_says_how_many_requests_it_takes(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate("mix", "min_class_acceptance_length=1.2", requests=16)
    result.assert_outcomes(errors=1)
    refused(result, pytester, "4 of the 16 requests are different prompts of class 'chat'", "num_requests to about 32")


def test_an_unknown_class_is_an_error_before_any_launch(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate("mix", "min_class_acceptance_length={'chatt': 1.2}")
    result.assert_outcomes(errors=1)
    refused(result, pytester, "has class 'chatt'; did you mean 'chat'?")


def test_a_class_that_the_mark_does_not_name_is_an_error_at_collection(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate(["code", "chat"], "min_class_acceptance_length={'kode': 1.2}")
    refused(result, pytester, "the workloads have no class 'kode', did you mean 'code'?", "error")


def test_shares_that_are_no_shares_are_an_error_at_collection(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate({"code": 60, "chat": 40}, "min_class_acceptance_length=1.2")
    refused(result, pytester, "needs shares that sum to 1; these sum to 100", "error")


def test_a_mix_without_weights_is_an_error_before_any_launch(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    plain = {name: {"path": f"{name}.jsonl"} for name in ("code", "chat")}
    result = gate("mix", "min_class_acceptance_length=1.2", workloads=plain)
    result.assert_outcomes(errors=1)
    refused(result, pytester, "fake.json has none")


def test_floors_for_classes_of_a_workload_without_any_are_an_error_before_any_launch(
    pytester: pytest.Pytester, gate: Callable[..., pytest.RunResult]
) -> None:
    result = gate("tiny", "min_class_acceptance_length=1.2", workloads={"tiny": {"path": "tiny.jsonl"}})
    result.assert_outcomes(errors=1)
    refused(result, pytester, "no prompt of workload 'tiny' has a class")
