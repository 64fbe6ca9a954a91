"""Requests as columns: small, exact, and damage is named."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.sample_columns import Damaged, columns_of, samples_from
from pytest_specdec.core.samples import RequestSample, RequestSpecStats


def sample(index: int = 0, **fields: Any) -> RequestSample:
    return RequestSample(**{"index": index, "prompt": 0, "category": None, "due_s": None, "sent_s": 0.25} | fields)


def test_what_no_request_has_takes_no_room() -> None:
    assert set(columns_of([sample(0), sample(1)])) == {"requests", "index", "prompt", "category", "due_s", "sent_s"}


def test_run_without_requests_comes_back() -> None:
    assert samples_from(columns_of([])) == ()


def test_null_and_empty_are_told_apart() -> None:
    samples = (sample(0, chunk_tokens=None), sample(1, chunk_tokens=()), sample(2, chunk_tokens=(1, 300)))
    assert samples_from(columns_of(samples)) == samples


def test_request_without_figures_of_its_own_stays_without() -> None:
    samples = (sample(0, spec=RequestSpecStats(2, 6, 3, (2, 1), (3, 3))), sample(1))
    assert samples_from(columns_of(samples)) == samples


def test_small_numbers_are_packed_narrowly() -> None:
    numbers = columns_of([sample(chunk_tokens=(1, 3, 2))])["chunk_tokens"]["numbers"]
    assert (numbers["type"], base64.b64decode(numbers["base64"])) == ("|i1", bytes([1, 3, 2]))


def test_column_of_a_later_release_is_ignored() -> None:
    assert samples_from(columns_of([sample()]) | {"mood": ["good"]}) == (sample(),)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"requests": 2}, "index: must be a list of 2 entries"),
        ({"requests": None}, "requests: must be their number"),
        ({"index": ["first"]}, r"index\[0\]: 'first' does not belong there"),
        ({"index": [True]}, r"index\[0\]: True does not belong there"),
        ({"sent_s": [float("inf")]}, r"sent_s\[0\]: inf does not belong there"),
        ({"sent_s": [None]}, r"sent_s\[0\]: None does not belong there"),
        ({"token_times_s": [0.5]}, "token_times_s: not numbers per request"),
        (
            {"token_times_s": {"counts": [1], "numbers": {"type": "<f8", "base64": "AAAA"}}},
            "token_times_s: not numbers",
        ),
        (
            {"token_times_s": {"counts": [1], "numbers": {"type": "|O", "base64": ""}}},
            "token_times_s: not numbers|type",
        ),
        ({"token_times_s": {"counts": [2], "numbers": {"type": "<f8", "base64": "AAAAAAAAAAA="}}}, "do not add up"),
        ({"token_times_s": {"counts": [-2], "numbers": {"type": "<f8", "base64": ""}}}, "do not add up"),
        ({"token_times_s": {"counts": [1], "numbers": {"type": "<f8", "base64": "AAAAAAAA8H8="}}}, "is not finite"),
    ],
)
def test_damage_is_named(change: dict[str, Any], what: str) -> None:
    with pytest.raises(Damaged, match=what):
        samples_from(columns_of([sample()]) | change)


def test_missing_column_is_damage() -> None:
    columns = columns_of([sample()])
    del columns["prompt"]
    with pytest.raises(Damaged, match="prompt: is missing"):
        samples_from(columns)


def test_what_answers_looked_like_comes_back() -> None:
    forms = [
        AnswerForm(0.25, blank=False, damaged=True, parses=False),
        None,
        AnswerForm(None, blank=True, damaged=False),
    ]
    samples = tuple(sample(index, form=form) for index, form in enumerate(forms))
    data = json.loads(json.dumps(columns_of(samples)))
    assert data["form.blank"] == [False, None, True]
    assert samples_from(data) == samples


def test_a_number_does_not_pass_for_a_yes() -> None:
    data = columns_of([sample(0, form=AnswerForm(None, blank=True, damaged=False))])
    with pytest.raises(Damaged, match=r"form.blank\[0\]: 1 does not belong there"):
        samples_from(data | {"form.blank": [1]})
