"""Knobs: what is accepted, what is refused, and which arm gets what."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_specdec.testing.knobs import (
    CutStream,
    ExitAtStart,
    HttpFailure,
    KnobError,
    Knobs,
    knob_data,
    read_knobs,
)

DOCS = Path(__file__).parents[2] / "docs" / "testing-your-suite.md"


def test_no_knobs_are_the_defaults() -> None:
    assert read_knobs(knob_data(None), speculating=True) == Knobs()


@pytest.mark.parametrize(("speculating", "expected_ms"), [(True, 4.0), (False, 9.0)])
def test_an_arm_overrides_what_both_share(*, speculating: bool, expected_ms: float) -> None:
    knobs = read_knobs({"tpot_ms": 9, "seed": 7, "specdec": {"tpot_ms": 4}}, speculating=speculating)
    assert (knobs.tpot_ms, knobs.seed) == (expected_ms, 7)


def test_structured_knobs_become_records() -> None:
    knobs = read_knobs(
        {
            "exit_at_start": {"code": 3, "message": "no memory"},
            "http_error": {"status": 503, "every": 2},
            "cut_stream": {"every": 4},
        },
        speculating=False,
    )
    assert knobs.exit_at_start == ExitAtStart(code=3, message="no memory")
    assert knobs.http_error == HttpFailure(status=503, every=2)
    assert knobs.cut_stream == CutStream(every=4)


@pytest.mark.parametrize(("given", "expected"), [(50, (50, 50)), ([20, 30], (20, 30))])
def test_answer_tokens_are_one_length_or_a_range(given: object, expected: tuple[int, int]) -> None:
    assert read_knobs({"answer_tokens": given}, speculating=False).answer_tokens == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tpot": 3}, "unknown knob tpot, did you mean 'tpot_ms'?"),
        ({"baselin": {}}, "unknown knob baselin, did you mean 'baseline'?"),
        ({"baseline": {"jiter": 1}}, "unknown knob baseline.jiter, did you mean 'jitter'?"),
        ({"http_error": {"code": 500}}, "unknown knob http_error.code"),
        ({"tpot_ms": "3"}, "tpot_ms must be a number, not '3'"),
        ({"tpot_ms": True}, "tpot_ms must be a number, not True"),
        ({"tpot_ms": -1}, "tpot_ms must not be negative, not -1"),
        ({"tpot_ms": float("nan")}, "tpot_ms must be a number, not nan"),
        ({"draft_coverage": 1.5}, "draft_coverage must be a share from 0 to 1, not 1.5"),
        ({"acceptance": [0.5, 2]}, "acceptance must be a share from 0 to 1, not [0.5, 2]"),
        ({"acceptance": []}, "acceptance must name at least one position, not []"),
        ({"engines": 1.5}, "engines must be a whole number of 1 or more, not 1.5"),
        ({"engines": 0}, "engines must be a whole number of 1 or more, not 0"),
        ({"merged_chunks": 0}, "merged_chunks must be a whole number of 1 or more, not 0"),
        ({"answer_tokens": [9, 3]}, "answer_tokens must be [shortest, longest] with 1 <= shortest <= longest"),
        ({"buffered": 1}, "buffered must be true or false, not 1"),
        ({"version": 0.26}, "version must be a string, not 0.26"),
        ({"log_lines": "one"}, "log_lines must be a list of strings, not 'one'"),
        ({"http_error": 500}, "http_error must be an object, not 500"),
        ({"specdec": 3}, "specdec must be an object of knobs, not 3"),
    ],
)
def test_a_wrong_knob_is_named(data: dict[str, object], message: str) -> None:
    with pytest.raises(KnobError) as error:
        read_knobs(data, speculating=True)
    assert message in str(error.value)


def test_all_wrong_knobs_are_named_at_once() -> None:
    with pytest.raises(KnobError) as error:
        read_knobs({"tpot": 1, "jitter": "x", "baseline": {"nope": 1}}, speculating=True)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(KnobError, match="FAKE_VLLM"):
        knob_data(text)


def test_every_knob_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    assert [field.name for field in dataclasses.fields(Knobs) if f"| `{field.name}` |" not in text] == []
