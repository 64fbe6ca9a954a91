"""Classes of untagged prompts, by the rules that are documented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pytest_specdec
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.classify import CLASSES, class_of
from pytest_specdec.load.prompt_reader import Prompt
from pytest_specdec.load.workload import read_workload

FOLDER = Path(pytest_specdec.__file__).parent / "workloads"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does this do?\n```\nx = 1\n```", "code"),
        ("def add(a, b):\n    return a + b\nWhy is that slow?", "code"),
        ("#include <vector>\nint main() { return 0; }", "code"),
        ("SELECT name FROM users WHERE id = 3 gives an error", "code"),
        ("Write a Python function that reads a JSON file.", "code"),
        ("Implement binary search in Rust", "code"),
        ("Write unit tests for the login page", "code"),
        ("Fix the bug in my script", "code"),
        ("What does this regex match: ^a+$", "code"),
        ("Return the name and the age as JSON: Ada is 36.", "structured"),
        ("Make a table of the planets and their moons.", "structured"),
        ("Convert this to YAML: name Ada, age 36", "structured"),
        ("List the steps as bullet points", "structured"),
        ('Fill this: {"name": null, "age": null}', "structured"),
        ("Who wrote the play Faust?", "chat"),
        ("What is on the TV program tonight?", "chat"),
        ("What is the function of the liver?", "chat"),
        ("Which class of animals do whales belong to?", "chat"),
        ("Tell me a story about a python that lived in the jungle.", "chat"),
        ("I need to write a speech for a wedding.", "chat"),
        ("Let us talk about the import of tea in Britain.", "chat"),
    ],
)
def test_prompts_get_the_class_a_person_would_give(text: str, expected: str) -> None:
    assert class_of(Prompt(0, prompt=text)) == expected


@pytest.mark.parametrize(("name", "expected"), [("code", "code"), ("chat", "chat"), ("structured", "structured")])
def test_the_bundled_workloads_are_recognised(name: str, expected: str) -> None:
    prompts = read_workload(FOLDER / f"{name}.jsonl", name=name).prompts
    right = sum(class_of(prompt) == expected for prompt in prompts)
    assert right / len(prompts) >= 0.9


def test_the_last_thing_asked_decides() -> None:
    messages = (
        {"role": "system", "content": "Answer as JSON."},
        {"role": "user", "content": "Write a Python function."},
        {"role": "assistant", "content": "def f(): pass"},
        {"role": "user", "content": [{"type": "text", "text": "Thank you, how are you?"}]},
    )
    assert class_of(Prompt(0, messages=messages)) == "chat"


def test_only_prompts_without_a_category_get_one(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text('{"prompt": "Who are you?", "category": "greeting"}\n{"prompt": "Who am I?"}\n')
    workload = read_workload(path, name="w", options=WorkloadOptions(classify=True))
    assert [prompt.category for prompt in workload.prompts] == ["greeting", "chat"]
    assert workload.notes == ("1 prompt without a category got one by rules",)


def test_classes_can_be_sampled(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    lines = [json.dumps({"prompt": f"Who am I, number {n}?"}) for n in range(30)]
    lines += [json.dumps({"prompt": f"Write Python code, number {n}."}) for n in range(10)]
    path.write_text("\n".join(lines))
    options = WorkloadOptions(classify=True, sample=8, shares={"code": 0.5, "chat": 0.5}, seed=3)
    workload = read_workload(path, name="w", options=options)
    assert [prompt.category for prompt in workload.prompts] == ["chat"] * 4 + ["code"] * 4
    assert [prompt.index for prompt in workload.prompts] == list(range(8))
    assert workload.weights == {"code": 0.5, "chat": 0.5}


def test_there_are_no_other_classes() -> None:
    texts = ("", "x", "```", "json", "Python")
    assert {class_of(Prompt(0, prompt=text)) for text in texts} <= set(CLASSES)
