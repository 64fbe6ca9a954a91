from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.server_flags import (
    compact_json,
    grouped,
    option_of,
    options_in,
    speculates,
    value_of,
    words_of,
)


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        ({"enforce_eager": True}, "--enforce-eager"),
        ({"enable_prefix_caching": False}, "--no-enable-prefix-caching"),
        ({"max_model_len": 8192, "gpu_memory_utilization": 0.8}, "--max-model-len 8192 --gpu-memory-utilization 0.8"),
        ({"dtype": "bfloat16"}, "--dtype bfloat16"),
        ({"lora-modules": ["a=b", {"name": "c"}]}, '--lora-modules a=b {"name":"c"}'),
        ({"compilation_config": {"mode": 3, "a_b": [1]}}, '--compilation-config {"a_b":[1],"mode":3}'),
        ({"compilation_config.cudagraph_mode": "NONE"}, "--compilation-config.cudagraph_mode NONE"),
        ({"compilation_config.a_b": True}, "--compilation-config.a_b true"),
        ({"compilation_config.sizes": [1, 2]}, "--compilation-config.sizes [1,2]"),
        ({"tp": 2}, "--tensor-parallel-size 2"),
        ({"--max_model_len": 1}, "--max-model-len 1"),
        ({"-O": 3}, "-O 3"),
        ({"chat_template": "-x"}, "--chat-template=-x"),
        ({"seed": -1}, "--seed=-1"),
        ({}, ""),
    ],
)
def test_a_mapping_becomes_the_words_one_would_type(serve: dict[str, Any], words: str) -> None:
    assert " ".join(words_of(serve)) == words


def test_a_list_of_words_stays_as_it_is() -> None:
    assert words_of(["--max_model_len", "8192", "-tp=2"]) == ("--max_model_len", "8192", "-tp=2")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: not text.startswith("-"))


@settings(deadline=None)
@given(
    text=TEXT,
    number=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    switch=st.booleans(),
    items=st.lists(TEXT, min_size=1),
    data=st.dictionaries(st.text(), st.integers() | st.text()),
)
def test_argparse_reads_back_what_was_meant(
    text: str,
    number: float,
    switch: bool,  # noqa: FBT001 - Hypothesis passes it
    items: list[str],
    data: dict[str, Any],
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--a-text")
    parser.add_argument("--a-number", type=float)
    parser.add_argument("--a-switch", action=argparse.BooleanOptionalAction)
    parser.add_argument("--some-items", nargs="+")
    parser.add_argument("--an-object", type=json.loads)
    serve = {"a_text": text, "a_number": number, "a_switch": switch, "some_items": items, "an_object": data}
    read = parser.parse_args(list(words_of(serve)))
    assert (read.a_text, read.a_switch, read.some_items, read.an_object) == (text, switch, items, data)
    assert read.a_number == pytest.approx(number)


def test_a_text_that_starts_with_a_hyphen_is_not_taken_for_an_option() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--a-text")
    assert parser.parse_args(list(words_of({"a_text": "--b"}))).a_text == "--b"


@pytest.mark.parametrize(
    ("word", "option"),
    [
        ("--max-model-len", "max-model-len"),
        ("--max_model_len=3", "max-model-len"),
        ("--compilation-config.a_b", "compilation-config"),
        ("--no-enable-prefix-caching", "enable-prefix-caching"),
        ("-tp", "tensor-parallel-size"),
        ("-tp=2", "tensor-parallel-size"),
        ("-sc.method", "speculative-config"),
        ("-O3", "O3"),
        ("8192", None),
        ("-1", None),
        ("-0.5", None),
        ("", None),
        ("-", None),
        ("--", None),
        ('{"--x": 1}', None),
        ("--max-model-len 8192", None),
        ("-- x", None),
    ],
)
def test_an_option_is_known_by_all_its_spellings(word: str, option: str | None) -> None:
    assert option_of(word) == option


def test_options_of_a_command_line() -> None:
    assert options_in(["vllm", "serve", "--a", "1", "--no-b", "-tp", "2"]) == {"a", "b", "tensor-parallel-size"}


def test_options_are_grouped_with_their_values() -> None:
    assert list(grouped(["x", "--a", "1", "2", "--b", "--c=3", "-1"])) == [
        ("x",),
        ("--a", "1", "2"),
        ("--b",),
        ("--c=3", "-1"),
    ]
    assert list(grouped([])) == []


@pytest.mark.parametrize("option", ["speculative-config", "spec-method", "speculative-model", "spec"])
def test_options_that_switch_speculation_on(option: str) -> None:
    assert speculates(option)


@pytest.mark.parametrize("option", ["per-request-spec-decode-metrics", "scheduling-policy", "seed"])
def test_options_that_do_not(option: str) -> None:
    assert not speculates(option)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_equal_data_has_one_spelling(data: dict[str, Any]) -> None:
    backwards = dict(reversed(data.items()))
    assert compact_json(data) == compact_json(backwards)
    assert compact_json(data).isascii()
    assert json.loads(compact_json(data)) == data


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--tensor-parallel-size", "2"], "2"),
        (["--tensor_parallel_size=2", "--x"], "2"),
        (["-tp", "2"], "2"),
        (["-tp=4", "--tensor-parallel-size", "8"], "8"),
        (["--tensor-parallel-size"], None),
        (["serve", "model", "--pipeline-parallel-size", "2"], None),
        ([], None),
    ],
)
def test_the_last_value_of_an_option_counts(words: list[str], value: str | None) -> None:
    assert value_of(words, "tensor-parallel-size") == value
