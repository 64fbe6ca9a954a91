from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.places import Place
from pytest_specdec.core.strict_json import parse_json

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def problems(text: str) -> list[tuple[int, int, str]]:
    return [(p.place.line, p.place.column, f"{p.what}. {p.remedy}") for p in parse_json(text).problems]


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_what_json_writes_is_read_back_the_same(value: Any, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    parsed = parse_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert parsed.problems == ()
    assert json.dumps(parsed.data) == json.dumps(value)


@settings(deadline=None)
@given(st.text() | st.text(alphabet="{}[]\",:'\\0123456789.-+eE truefalsnNaIiy\n#/"))
def test_any_text_is_either_what_the_standard_parser_reads_or_a_problem_inside_the_text(text: str) -> None:
    parsed = parse_json(text)
    if parsed.problems:
        lines = text.split("\n")
        for problem in parsed.problems:
            assert 1 <= problem.place.line <= len(lines)
            assert 1 <= problem.place.column <= len(lines[problem.place.line - 1]) + 1
    else:
        assert parsed.data == json.loads(text)


@settings(deadline=None)
@given(st.dictionaries(st.text(string.ascii_letters, min_size=1), st.integers(), min_size=1))
def test_every_key_has_the_place_of_its_opening_quote(value: dict[str, int]) -> None:
    text = json.dumps(value, indent=1)
    lines = text.split("\n")
    for key, place in parse_json(text).places.items():
        assert lines[place.line - 1][place.column - 1 :].startswith(f'"{key[0]}":')


def test_blanks_stand_wherever_json_lets_them() -> None:
    parsed = parse_json('\t{ "a" : [ ] ,\r\n "b":{ },"c":[ 1 , 2 ] } \n')
    assert parsed.problems == ()
    assert parsed.data == {"a": [], "b": {}, "c": [1, 2]}
    assert parsed.places["c", 0] == Place(2, 16)


def test_places_reach_into_lists() -> None:
    assert parse_json('{"a": [1,\n {"b": 2}]}').places == {
        ("a",): Place(1, 2),
        ("a", 0): Place(1, 8),
        ("a", 1): Place(2, 2),
        ("a", 1, "b"): Place(2, 3),
    }


def test_a_name_given_twice_is_refused_with_both_places() -> None:
    (problem,) = problems('{"method":"ngram","num_speculative_tokens":3,"num_speculative_tokens":5}')
    assert problem[:2] == (1, 46)
    assert "num_speculative_tokens is given twice, first at line 1, column 19; vLLM would take the last" in problem[2]


def test_the_same_name_in_two_objects_is_no_duplicate() -> None:
    assert problems('{"a": {"x": 1}, "b": {"x": 2}}') == []


def test_a_trailing_comma_is_named_and_placed() -> None:
    (problem,) = problems('{"method":"ngram","num_speculative_tokens":3,}')
    assert problem[:2] == (1, 45)
    assert "trailing comma" in problem[2]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("{'method': 'ngram', 'parallel_drafting': True}", (1, 2), "a Python dict, not JSON"),
        ("{\"method\": 'ngram'}", (1, 12), "a Python dict, not JSON"),
        ('{"parallel_drafting": True}', (1, 23), "True is Python, in JSON it is true"),
        ('{"revision": None}', (1, 14), "None is Python, in JSON it is null"),
        ('{"min_token_prob": NaN}', (1, 20), "NaN is not a number that JSON has"),
        ('{"min_token_prob": -Infinity}', (1, 20), "-Infinity is not a number"),
        ('{"min_token_prob": 1e999}', (1, 20), "too large"),
        ('{"k": 01}', (1, 7), "01 is not a JSON number"),
        ('{"k": .5}', (1, 7), ".5 is not a JSON number"),
        ("{method: ngram}", (1, 2), "`method` where a key in double quotes is needed"),
        ('{"method": ngram}', (1, 12), "`ngram` stands without quotes"),
        ('{\\"method\\": 1}', (1, 2), "damaged quoting"),
        ("{“method”: 1}", (1, 2), "typographic quote"),
        ('{"method": "ngram', (1, 12), "never closed"),
        ('{"method": "ngram\n}', (1, 18), "line break or control character inside a string"),
        ('{"method": "C:\\data"}', (1, 15), "Write a backslash as"),
        ('{"method": "ngram" "k": 3}', (1, 20), "a comma or } is needed"),
        ('{"method" "ngram"}', (1, 11), "a colon after the key method is needed"),
        ('{"method": "ngram", // why\n}', (1, 21), "JSON has no comments"),
        ('// why\n{"method": "ngram"}', (1, 1), "write the file as .yaml with # comments"),
        ('{"method": "ngram"\n', (2, 1), "what opens at line 1, column 1 is never closed"),
        ('{"a": [1,,2]}', (1, 10), "one comma too many"),
        ('{"a": 1}\n{"b": 2}', (2, 1), "more text after the end"),
        ('{"a": \xa01}', (1, 7), "where a value is needed"),
        ('{"a": "\\ud800"}', (1, 7), "half of a surrogate pair"),
        ('{"a": "\\u0000"}', (1, 7), "NUL"),
        ("[" * 5000, (1, 102), "nested more than 100 levels deep"),
        ("", (1, 1), "the text ends where a value is needed"),
    ],
)
def test_a_mistake_is_placed_and_called_by_its_name(text: str, place: tuple[int, int], words: str) -> None:
    (problem,) = problems(text)
    assert problem[:2] == place
    assert words in problem[2]


def test_mistakes_that_leave_the_structure_alone_are_reported_together() -> None:
    assert [problem[:2] for problem in problems('{"a": True, "a": NaN,\n "b": [1, 2,],}')] == [
        (1, 7),
        (1, 13),
        (1, 18),
        (2, 12),
        (2, 14),
    ]
