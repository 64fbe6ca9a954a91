"""Keys of a workload's entry that have no effect or contradict each other are errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import load_configs
from pytest_specdec.core.config_shape import shape_problems
from pytest_specdec.core.errors import ConfigError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.core.workload_rules import workload_problems

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 4}


def found(**keys: Any) -> list[str]:
    problems = workload_problems({"logs": {"path": "logs.jsonl", **keys}})
    return [f"{'.'.join(map(str, problem.keys))} {problem.what}" for problem in problems]


def loaded(folder: Path, entry: dict[str, Any]) -> SpecConfig:
    (folder / "c.json").write_text(json.dumps({"speculative_config": SPECULATIVE, "workloads": {"logs": entry}}))
    (config,), _ = load_configs([folder / "c.json"], default_model="m")
    return config


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"by": "category"}, "workloads.logs.by has no effect without `sample`"),
        ({"seed": 7}, "workloads.logs.seed has no effect without `sample`"),
        ({"shares": {"code": 1}}, "workloads.logs.shares has no effect without `sample`"),
        ({"sample": 9, "shares": {"a": 0.5, "b": 0.4}}, "workloads.logs.shares sum to 0.9"),
        (
            {"sample": 9, "multi_turn": "own"},
            "workloads.logs.sample draws prompts one by one, and `multi_turn: own` needs whole conversations",
        ),
        ({"split": "train"}, "workloads.logs.split belongs to a dataset on the hub, and `path` is none"),
        ({"subset": "small"}, "workloads.logs.subset belongs to a dataset on the hub, and `path` is none"),
        (
            {"columns": {"prompt": "a", "messages": "b"}},
            "workloads.logs.columns maps both prompt and messages: which one is to be sent?",
        ),
    ],
)
def test_keys_without_effect_or_sense_are_named(keys: dict[str, Any], problem: str) -> None:
    assert found(**keys) == [problem]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"sample": 300, "by": "category", "seed": 7},
        {"sample": 300, "shares": {"code": 0.6, "chat": 0.4}},
        {"sample": 300, "shares": {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}},
        {"path": "hf:owner/name", "split": "train", "subset": "small"},
        {"columns": {"prompt": "a", "category": "b"}},
    ],
)
def test_keys_that_go_together_are_fine(keys: dict[str, Any]) -> None:
    assert found(**keys) == []


@pytest.mark.parametrize(
    "entry", [3, {"path": 3, "columns": 3, "sample": "3", "shares": 3}, {"sample": 1, "shares": {"a": "1"}}]
)
def test_parts_of_the_wrong_type_are_left_to_the_shape(entry: Any) -> None:
    assert list(workload_problems({"logs": entry})) == []
    assert list(workload_problems(entry)) == []


def test_an_entry_becomes_options(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("")
    stated = {
        "columns": {"prompt": "request"},
        "sample": 300,
        "by": "category",
        "shares": {"code": 0.6, "chat": 0.4},
        "seed": 7,
        "classify": True,
        "multi_turn": "recorded",
        "on_bad_line": "skip",
        "max_tokens": 64,
    }
    entry = loaded(tmp_path, {"path": "logs.csv", "weight": 1, **stated}).workloads["logs"]
    assert entry.options() == WorkloadOptions(**stated)  # type: ignore[arg-type] # the values have the fields' types
    assert entry.path == tmp_path / "logs.csv"


def test_an_entry_that_says_nothing_has_no_options(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("")
    options = loaded(tmp_path, {"path": "logs.csv"}).workloads["logs"].options()
    assert options == WorkloadOptions()
    assert options.fingerprint() == ""


def test_a_dataset_is_no_path(tmp_path: Path) -> None:
    assert str(loaded(tmp_path, {"path": "hf:owner/name"}).workloads["logs"].path) == "hf:owner/name"


def test_a_folder_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "speed").mkdir()
    assert loaded(tmp_path, {"path": "speed"}).workloads["logs"].path == tmp_path / "speed"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        loaded(tmp_path, {"path": "nothing.jsonl"})


def test_a_mistyped_column_is_suggested() -> None:
    data = {"speculative_config": SPECULATIVE, "workloads": {"logs": {"path": "p", "columns": {"promt": "x"}}}}
    _, (problem,) = shape_problems(data)
    assert problem.keys == ("workloads", "logs", "columns", "promt")
    assert (problem.what, problem.remedy) == ("is not a known key", "Did you mean 'prompt'?")


def test_options_that_differ_have_fingerprints_that_differ() -> None:
    some = [WorkloadOptions(sample=3), WorkloadOptions(sample=3, seed=1), WorkloadOptions(columns={"prompt": "a"})]
    assert len({options.fingerprint() for options in some} - {""}) == len(some)
