"""Settings of the acceptance procedure: what is taken, and what is refused with which words."""

from __future__ import annotations

import pytest

from pytest_specdec.core.procedure import Procedure, Thresholds, read_procedure


def problems(*given: str) -> list[str]:
    return [str(finding) for finding in read_procedure(given, source="--specdec-acceptance")[1]]


def test_settings_replace_the_defaults() -> None:
    procedure, found = read_procedure(
        ["tpot_gain=0.2", "workloads=code, sql", "high=64", "goal=throughput"], source="--specdec-acceptance"
    )
    assert found == []
    assert procedure == Procedure(tpot_gain=0.2, workloads=("code", "sql"), high=64, goal="throughput")
    assert procedure.thresholds == Thresholds(1.5, 0.2, 0.0)


def test_floors_are_read_by_class() -> None:
    procedure, found = read_procedure(["class_acceptance_length=code:2, support/refund: 1.8"], source="x")
    assert found == []
    assert procedure.class_acceptance_length == {"code": 2.0, "support/refund": 1.8}


def test_the_last_of_two_counts() -> None:
    assert read_procedure(["high=8", "high=16"], source="x")[0].high == 16


def test_a_mistyped_name_is_an_error_that_names_the_right_one() -> None:
    (problem,) = problems("tpot-gian=0.2")
    assert "unknown name 'tpot-gian', did you mean 'tpot_gain'?" in problem
    assert problem.startswith("--specdec-acceptance")


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("tpot_gain=30", "a fraction below 1, such as 0.3"),
        ("tpot_gain=nan", "a fraction below 1"),
        ("tpot_gain=a lot", "a fraction below 1"),
        ("acceptance_length=0.5", "a number of at least 1"),
        ("throughput_gain=-2", "a fraction of at least -1"),
        ("requests=1", "a whole number of at least 2"),
        ("low=0.5", "a whole number of at least 1"),
        ("goal=speed", "latency, throughput or both"),
        ("workloads=code,,chat", "names of workloads, separated by commas"),
        ("class_acceptance_length=2", "NAME:VALUE, separated by commas"),
        ("class_acceptance_length=code:0.5", "NAME:VALUE, separated by commas"),
        ("class_acceptance_length=code:2,:3", "NAME:VALUE, separated by commas"),
        ("busy=85", "a fraction of at least 0 and below 1"),
    ],
)
def test_a_value_that_cannot_be_meant_says_what_is_wanted(setting: str, wanted: str) -> None:
    (problem,) = problems(setting)
    assert setting in problem
    assert wanted in problem


def test_a_word_alone_is_no_setting() -> None:
    (problem,) = problems("fast")
    assert "'fast' is not NAME=VALUE" in problem


def test_low_load_lies_below_high_load() -> None:
    (problem,) = problems("low=8", "high=8")
    assert "low=8 is not below high=8" in problem


def test_everything_wrong_is_said_at_once() -> None:
    assert len(problems("x=1", "low=0", "fast")) == 3
