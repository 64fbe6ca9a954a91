from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.places import Place
from pytest_specdec.core.strict_yaml import parse_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(
    # Text to YAML 1.1, in which PyYAML writes it without quotes, and a number to everybody else.
    lambda text: not re.fullmatch(r"[-+]?[0-9.]+[eE][0-9]+", text)
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def problems(text: str) -> list[tuple[int, int, str]]:
    return [(p.place.line, p.place.column, f"{p.what}. {p.remedy}") for p in parse_yaml(text).problems]


@settings(deadline=None)
@given(VALUES)
def test_what_yaml_writes_is_read_back_the_same(value: Any) -> None:
    parsed = parse_yaml(yaml.safe_dump(value, sort_keys=False))
    assert parsed.problems == ()
    assert json.dumps(parsed.data) == json.dumps(value)


@settings(deadline=None)
@given(st.text() | st.text(alphabet="abx01:-.,[]{}&*!|>'\"%#? \n\t\\<=~yesnoU_"))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    parsed = parse_yaml(text)
    assert parsed.problems or json.loads(json.dumps(parsed.data, allow_nan=False)) == parsed.data


def test_places_are_those_of_keys_and_items() -> None:
    assert parse_yaml("model: m\nserve:\n  - --enforce-eager\nmeasure: {rounds: 4}\n").places == {
        ("model",): Place(1, 1),
        ("serve",): Place(2, 1),
        ("serve", 0): Place(3, 5),
        ("measure",): Place(4, 1),
        ("measure", "rounds"): Place(4, 11),
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("0.8", 0.8),
        ("-4", -4),
        (".5", 0.5),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ("'010'", "010"),
        ("!!str 4", "4"),
        ("=", "="),
    ],
)
def test_a_scalar_means_what_it_looks_like(text: str, value: Any) -> None:
    parsed = parse_yaml(f"a: {text}")
    assert parsed.problems == ()
    assert parsed.data == {"a": value}
    assert type(parsed.data["a"]) is type(value)


@pytest.mark.parametrize("number", ["010", "0x10", "22:22", "1_000", "0b1", "09.5"])
def test_a_number_that_yaml_reads_otherwise_than_people_do_is_refused(number: str) -> None:
    (problem,) = problems(f"a: {number}")
    assert problem[:2] == (1, 4)
    assert "no plain decimal number" in problem[2]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: 2\na: 3", (3, 1), "a is given twice, first at line 1, column 1"),
        ("a: {b: 1, b: 1}", (1, 11), "b is given twice"),
        ("a:\n\tb: 1", (2, 1), "YAML takes no tabs"),
        ("a: [1,", (1, 7), "not YAML"),
        ("a: .nan", (1, 4), "not a number that can be used"),
        ("a: -.inf", (1, 4), "not a number that can be used"),
        ("a: 1e999", (1, 4), "too large"),
        ("a: !!python/object/apply:os.system ['true']", (1, 4), "is not supported"),
        ("a: !!set {x}", (1, 4), "is not supported"),
        ("a: !!null 'x'\nb: !!bool maybe", (2, 4), "is not supported"),
        ("a: &x [*x]", (1, 4), "an alias that contains itself"),
        ("a: *x", (1, 4), "undefined alias"),
        ("? [1]\n: 2", (1, 3), "a key that is not plain text"),
        ("a: 1\n---\nb: 2", (2, 1), "expected a single document"),
        ("# nothing\n", (1, 1), "the file holds no data"),
        ('a: "\\U00110000"', (1, 1), "not YAML"),
        ('a: "\\0"', (1, 4), "NUL"),
        ("a: \x01", (1, 4), "not YAML"),
        ("[" * 5000, (1, 1), "nested more than 100 levels deep"),
        ("<<: 3", (1, 5), "takes a mapping"),
    ],
)
def test_a_mistake_is_placed_and_called_by_its_name(text: str, place: tuple[int, int], words: str) -> None:
    (problem,) = problems(text)
    assert problem[:2] == place
    assert words in problem[2]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  // why\n  "method": "ngram"\n}', (2, 3)),
        ('{\n  "method": "ngram", // why\n  "k": 3\n}', (2, 22)),
        ('{\n  /* why */\n  "method": "ngram"\n}', (2, 3)),
        ("// why\nmethod: ngram\n", (1, 1)),
    ],
)
def test_a_comment_of_another_language_is_called_by_its_name(text: str, place: tuple[int, int]) -> None:
    (problem,) = problems(text)
    assert problem == (*place, "YAML has no // comments. Begin a comment with #.")


def test_an_address_is_no_comment() -> None:
    (problem,) = problems("url: http://a/b\nmethod: [\n")
    assert "comment" not in problem[2]


def test_aliases_cannot_unfold_without_end() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]
    (problem,) = problems("\n".join(["l0: &l0 [x]", *levels]))
    assert "unfold to more than" in problem[2]


def test_keys_are_text_as_written() -> None:
    assert parse_yaml("on: 1\n0: 2\n~: 3").data == {"on": 1, "0": 2, "~": 3}


def test_a_merged_mapping_gives_way_to_the_keys_beside_it() -> None:
    parsed = parse_yaml("base: &base {x: 1, y: 2}\nboth: {y: 3, <<: *base}\nlist: {<<: [{x: 8}, *base]}")
    assert parsed.problems == ()
    assert parsed.data["both"] == {"x": 1, "y": 3}
    assert parsed.data["list"] == {"x": 8, "y": 2}
    assert parsed.places["both", "y"] == Place(2, 8)


def test_a_merge_is_no_excuse_for_a_duplicate() -> None:
    (problem,) = problems("base: &base {x: 1}\nboth: {<<: *base, x: 2, x: 3}")
    assert "x is given twice" in problem[2]
