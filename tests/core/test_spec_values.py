"""What vLLM's pydantic makes of a value; the real one decides in tests/e2e/test_validate_against_vllm.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pytest_specdec.core.spec_fields import FIELDS, SpecField
from pytest_specdec.core.spec_values import taken

if TYPE_CHECKING:
    from pytest_specdec.core.spec_fields import Kind

K = FIELDS["num_speculative_tokens"]


@pytest.mark.parametrize(
    ("value", "expected", "oddity"),
    [
        (3, 3, ""),
        ("3", 3, "taken as 3"),
        (3.0, 3, "is 3.0, taken as 3"),
        (" 1_0 ", 10, "taken as 10"),
    ],
)
def test_a_whole_number_in_another_form_is_taken_and_told(value: Any, expected: int, oddity: str) -> None:
    result = taken(K, value)
    assert (result.value, result.fault) == (expected, "")
    assert oddity in result.oddity


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (True, "vLLM would take it as 1"),
        (2.5, "not an integer"),
        ("2.5", "not an integer"),
        ("three", "must be a whole number"),
        (math.nan, "must be a whole number"),
        (0, "must be positive"),
        (-1, "must be positive"),
        (1e19, "must be a whole number"),
        (None, "is null"),
        ([3], "must be a whole number, not a list"),
    ],
)
def test_what_is_no_whole_number_is_refused(value: Any, fault: str) -> None:
    assert fault in taken(K, value).fault


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("enforce_eager", "yes", "taken as true"),
        ("enforce_eager", 0, "taken as false"),
        ("suffix_decoding_min_token_prob", "0.5", "taken as 0.5"),
        ("max_model_len", "65536", "taken as 65536"),
        ("revision", None, "takes for left out"),
        ("synthetic_acceptance_rates", ["0.5", 0.25], "taken as 0.5"),
    ],
)
def test_what_vllm_takes_oddly_is_told(name: str, value: Any, words: str) -> None:
    result = taken(FIELDS[name], value)
    assert result.fault == ""
    assert words in result.oddity


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("parallel_drafting", "perhaps", "must be true or false"),
        ("parallel_drafting", None, "is null"),
        ("revision", 3, "must be text, not 3"),
        ("model", "  ", "empty text"),
        ("draft_load_config", "dummy", "must be an object"),
        ("suffix_decoding_min_token_prob", 1.5, "at most 1"),
        ("suffix_decoding_max_spec_factor", -1, "at least 0"),
        ("suffix_decoding_min_token_prob", math.inf, "must be a number"),
        ("synthetic_acceptance_rates", 0.5, "must be a list of numbers"),
        ("synthetic_acceptance_rates", [0.5, True], "holds an entry"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: Any, words: str) -> None:
    assert words in taken(FIELDS[name], value).fault


JSON_VALUES = (
    st.none()
    | st.integers(-5, 10**6)
    | st.floats(allow_nan=False)
    | st.sampled_from(
        ["3", " 3 ", "3.0", "+3", "-3", "1_000", "1e2", "0.5", "on", "Off", "TRUE", "", "x", ".5", "5.", "__3"]
    )
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1)
)
TYPES = {"int": int, "float": float, "bool": bool, "text": str}


@given(st.sampled_from(sorted(TYPES)), JSON_VALUES)
def test_numbers_flags_and_texts_are_read_as_pydantic_reads_them(kind: str, value: Any) -> None:
    """Booleans are left out: pydantic takes true for 1, and here that is refused."""
    result = taken(SpecField("any", cast("Kind", kind)), value)
    try:
        expected: Any = TypeAdapter(TYPES[kind]).validate_python(value)
    except ValidationError:
        assert result.fault or result.value is None
        return
    if (kind == "text" and not expected.strip()) or (kind == "float" and not math.isfinite(expected)):
        assert result.fault
    else:
        assert result.value == expected
