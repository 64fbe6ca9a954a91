"""The bundled prompts: readable, in categories, and different enough that each one counts as content of its own."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # no stubs among the development tools
import pytest

import pytest_specdec
from pytest_specdec.load.workload import Workload, read_workload

FOLDER = Path(pytest_specdec.__file__).parent / "workloads"
SIZES = {"chat": 80, "code": 80, "structured": 80, "summary": 40}


def bundled(name: str) -> Workload:
    return read_workload(FOLDER / f"{name}.jsonl", name=name)


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def test_exactly_the_documented_workloads_are_bundled() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SIZES)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_size_is_as_documented_and_nothing_is_left_to_note(name: str, size: int) -> None:
    workload = bundled(name)
    assert len(workload.prompts) == size
    assert workload.notes == ()


@pytest.mark.parametrize("name", SIZES)
def test_every_prompt_is_a_chat_with_a_category(name: str) -> None:
    prompts = bundled(name).prompts
    assert all(prompt.messages for prompt in prompts)
    assert len({prompt.category for prompt in prompts if prompt.category}) >= 4
    assert None not in {prompt.category for prompt in prompts}


@pytest.mark.parametrize("name", SIZES)
def test_the_first_prompts_are_a_mix_of_categories(name: str) -> None:
    """A small ``num_requests`` must not measure one category only, whatever order is drawn from the file."""
    assert len({prompt.category for prompt in bundled(name).prompts[:8]}) >= 3


@pytest.mark.parametrize("name", SIZES)
def test_no_two_prompts_are_nearly_the_same(name: str) -> None:
    for one, other in itertools.combinations(bundled(name).prompts, 2):
        a, b = words(one.text), words(other.text)
        assert len(a & b) / len(a | b) < 0.65, (one.text, other.text)


def test_summaries_are_the_long_inputs() -> None:
    shortest = {name: min(len(prompt.text) for prompt in bundled(name).prompts) for name in SIZES}
    assert shortest["summary"] > 700
    assert max(shortest["chat"], shortest["code"], shortest["structured"]) < 300


def test_prompts_with_a_schema_hold_a_sound_one() -> None:
    prompts = [prompt for prompt in bundled("structured").prompts if prompt.category == "schema"]
    assert len(prompts) == 20
    for prompt in prompts:
        schema = json.loads(prompt.text.split("\n")[1])
        jsonschema.Draft202012Validator.check_schema(schema)
        assert prompt.asked["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("name", SIZES)
def test_nothing_else_asks_for_a_form(name: str) -> None:
    assert {prompt.category for prompt in bundled(name).prompts if prompt.asked} <= {"schema"}
