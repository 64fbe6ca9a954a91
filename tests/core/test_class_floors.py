"""Floors for classes: what a mark makes of them, and their verdicts."""

from __future__ import annotations

import pytest

from pytest_specdec.core.class_floors import for_classes
from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.judge import estimate, judge
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement
from tests.core.class_builder import two_classes
from tests.core.comparison_builder import build_comparison

LENGTH = "min_class_acceptance_length"


def outcomes(name: str, value: object, **comparison: object) -> dict[str | None, str]:
    verdicts = judge(two_classes(**comparison), REGISTRY[name].parse(value))  # type: ignore[arg-type] # passed on
    return {verdict.requirement.part: verdict.outcome for verdict in verdicts}


def test_a_number_is_the_floor_of_every_class() -> None:
    assert outcomes(LENGTH, 1.2) == {"chat": "ok", "code": "ok"}
    assert outcomes(LENGTH, 2.2) == {"chat": "FAIL", "code": "ok"}


def test_a_dict_has_a_floor_for_each() -> None:
    assert outcomes(LENGTH, {"code": 2.5, "chat": 1.3}) == {"code": "ok", "chat": "ok"}
    assert outcomes(LENGTH, {"chat": 3.0}) == {"chat": "FAIL"}


def test_the_label_names_the_class() -> None:
    (verdict,) = judge(two_classes(), REGISTRY[LENGTH].parse({"chat": 1.3}))
    assert verdict.requirement.label == "min_class_acceptance_length[chat]"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("min_class_tokens_per_step", 1.2, {"chat": "ok", "code": "ok"}),
        ("min_class_tokens_per_step", {"chat": 3.0}, {"chat": "FAIL"}),
        ("class_tpot_gain", {"code": 0.4, "chat": 0.05}, {"code": "ok", "chat": "ok"}),
        ("class_tpot_gain", 0.3, {"code": "ok", "chat": "FAIL"}),
    ],
)
def test_the_other_floors(name: str, value: object, expected: dict[str, str]) -> None:
    assert outcomes(name, value) == expected


def test_close_to_the_floor_a_class_is_unsure() -> None:
    comparison = two_classes(code=8, chat=8)
    value = estimate(comparison, LENGTH, {"chat": 1.0}).value
    (verdict,) = judge(comparison, REGISTRY[LENGTH].parse({"chat": value - 0.1}))
    assert verdict.outcome == "unsure"
    assert "num_requests" in verdict.advice


@pytest.mark.parametrize("name", [LENGTH, "min_class_tokens_per_step", "class_tpot_gain"])
def test_a_class_of_a_few_prompts_is_not_judged(name: str) -> None:
    with pytest.raises(CannotMeasure, match="7 different prompts of the class were answered, and 8 are needed"):
        judge(two_classes(chat=7), (Requirement(name, 0.0 if "gain" in name else 1.0, part="chat"),))


def test_an_unknown_class_is_named_with_the_likely_one() -> None:
    with pytest.raises(MarkError, match="has class 'chatt'; did you mean 'chat'") as raised:
        judge(two_classes(), REGISTRY[LENGTH].parse({"chatt": 1.3}))
    assert "chat, code" in raised.value.remedy


def test_floors_without_classes_are_an_error() -> None:
    with pytest.raises(MarkError, match="no prompt of workload 'chat' has a class"):
        judge(build_comparison(), REGISTRY[LENGTH].parse(1.3))


def test_other_requirements_pass_through() -> None:
    plain = REGISTRY["tpot_gain"].parse(0.1)
    assert for_classes(plain, (), workload="chat") == plain


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "needs a number for every class, or classes and numbers"),
        ({3: 1.5}, "3 is no class"),
        ({"": 1.5}, "'' is no class"),
        ({"code": 0.5}, "never below 1"),
        (0.5, "never below 1"),
        ({"code": "2"}, "not a string"),
        (True, "not a boolean"),
        ("code", "not a string"),
    ],
)
def test_a_floor_that_cannot_be_meant(value: object, message: str) -> None:
    with pytest.raises(MarkError, match=message):
        REGISTRY[LENGTH].parse(value)


def test_gains_of_classes_are_checked_as_gains() -> None:
    with pytest.raises(MarkError, match=r"did you mean 0\.3"):
        REGISTRY["class_tpot_gain"].parse({"code": 30})


def test_an_estimate_of_a_class_names_it() -> None:
    with pytest.raises(MarkError, match="such as"):
        estimate(two_classes(), LENGTH)
    assert estimate(two_classes(), LENGTH, {"code": 1.0}).value > 2.5
