"""Acceptance by class as people read it."""

from __future__ import annotations

import pytest

from pytest_specdec.core.explain import explain
from pytest_specdec.core.judge import judge
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.reporting.classes import class_lines, class_summary
from tests.core.class_builder import build_classes, two_classes
from tests.core.comparison_builder import build_comparison

WEIGHTS = {"code": 0.6, "chat": 0.4}


def test_the_table_has_a_row_for_each_class_and_the_whole() -> None:
    lines = class_lines(two_classes(weights=WEIGHTS))
    assert lines[0] == "acceptance by class"
    assert lines[1].split() == ["class", "share", "prompts", "AL", "interval", "tok/step", "TPOT", "gain"]
    assert lines[2].startswith("code")
    assert " 60.0 % " in lines[2]
    assert lines[2].endswith("50.0 %")
    assert lines[3].startswith("chat (worst)")
    assert lines[4].startswith("the traffic, weighted by requests: AL ")
    assert lines[5].startswith("the traffic, plain mean of the classes' AL: ")


def test_shares_that_nobody_stated_are_called_what_was_sent() -> None:
    lines = class_lines(two_classes())
    assert "sent" in lines[1].split()
    assert lines[-1].startswith("what was sent, plain mean")


def test_without_classes_there_is_no_table() -> None:
    assert class_lines(build_comparison()) == []


def test_classes_that_nobody_asked_for_are_left_out_where_they_are_too_small_to_tell() -> None:
    assert class_lines(two_classes(chat=4)) == []
    assert class_lines(two_classes(chat=4, weights=WEIGHTS))


@pytest.mark.parametrize("token_ids", [True, False])
def test_it_fits_into_80_columns(token_ids: bool) -> None:  # noqa: FBT001 - a parameter
    classes = {f"a class with a very long name {n}": {"requests": 8} for n in range(12)}
    weights = dict.fromkeys(classes, 1 / 12)
    lines = class_lines(build_classes(classes, weights=weights, token_ids=token_ids))
    assert max(map(len, lines)) <= 78


def test_many_classes_are_cut_and_the_worst_stays() -> None:
    classes: dict[str, dict[str, object]] = {f"class{n}": {"requests": 8} for n in range(12)}
    classes["class11"] = {"requests": 8, "acceptance": (0.1, 0.0, 0.0)}
    lines = class_lines(build_classes(classes))
    assert any(line.startswith("class11 (worst)") for line in lines)
    assert "and 4 more classes" in lines


def test_why_a_figure_is_missing_is_said() -> None:
    assert any("unknown" in line for line in class_lines(two_classes(token_ids=False, weights=WEIGHTS)))


def test_a_class_of_the_traffic_that_was_not_measured_is_named() -> None:
    lines = class_lines(two_classes(weights={"code": 0.5, "chat": 0.3, "tables": 0.2}))
    assert lines[-1] == "not measured, although it has a share: tables"


def test_the_summary_names_the_worst_class_first() -> None:
    line = class_summary(two_classes(weights=WEIGHTS))
    assert line.startswith("AL by class: chat ")
    assert "(worst), code " in line


def test_the_summary_is_silent_where_nothing_is_about_classes() -> None:
    assert class_summary(two_classes()) == ""
    verdicts = judge(two_classes(), REGISTRY["min_class_acceptance_length"].parse(1.2))
    assert class_summary(two_classes(), verdicts)


def explained(required: float, weights: dict[str, float]) -> tuple[str, ...]:
    comparison = two_classes(code=40, chat=40, weights=weights)
    return explain(comparison, judge(comparison, REGISTRY["min_acceptance_length"].parse(required)))


def test_the_mix_that_would_miss_is_told_although_all_is_well() -> None:
    (sentence,) = explained(1.9, {"code": 0.9, "chat": 0.1})
    assert sentence.startswith("With more than ")
    assert "chat (10% now) the acceptance length falls below 1.9." in sentence


def test_the_mix_that_would_do_is_told_where_it_misses() -> None:
    assert explained(2.8, {"code": 0.4, "chat": 0.6})[-1].startswith("With at most ")


def test_a_floor_that_every_mix_meets_needs_no_sentence() -> None:
    assert explained(1.05, WEIGHTS) == ()
