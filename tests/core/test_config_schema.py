from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]  # no stubs among the development tools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specdec.core.config import config_json_schema
from pytest_specdec.core.config_schema import KEYS, LoadPoint, MeasureSettings, known_keys
from pytest_specdec.core.config_shape import shape_problems
from pytest_specdec.core.load_spec import LOAD_FIELDS

if TYPE_CHECKING:
    from pathlib import Path

SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 4}
REGENERATE = (
    "python -c 'import json; from pytest_specdec.core.config import config_json_schema; "
    "print(json.dumps(config_json_schema(), indent=2))' > pytest_specdec/schema/config.schema.json"
)
VALIDATOR = jsonschema.Draft202012Validator(config_json_schema())

GOOD: list[dict[str, Any]] = [
    SPECULATIVE,
    {"model": "org/draft", "num_speculative_tokens": 3},
    {"speculative_config": SPECULATIVE},
    {"speculative-config": SPECULATIVE, "model": "m"},
    {"speculative_config": SPECULATIVE, "serve": ["--enforce-eager"], "serve_specdec": {"max_num_seqs": 8}},
    {"speculative_config": SPECULATIVE, "command": "vllm serve", "stop_command": ["true"], "env": {"A": "b", "C": 1}},
    {"speculative_config": SPECULATIVE, "placement": "split", "devices": {"baseline": [0], "specdec": [1]}},
    {"speculative_config": SPECULATIVE, "workloads": {"code": {"path": "c.jsonl", "weight": 1.0, "max_tokens": 9}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"request_rate": 1, "top_k": -1}, "high": {"concurrency": 8}}},
    {
        "speculative_config": SPECULATIVE,
        "load": {"ladder": {"concurrency": [1, 8]}, "rates": {"request_rate": [0.5, 2]}},
    },
    {"speculative_config": SPECULATIVE, "measure": {"rounds": 4, "allow": ["lossy"]}, "startup_timeout_s": 60},
]
BAD: list[Any] = [
    None,
    [],
    {},
    {"model": "m"},
    {"serve": {}},
    {"speculative_config": {}},
    {"speculative_config": None},
    {"speculative_config": SPECULATIVE, "speculative-config": SPECULATIVE},
    {"speculative_config": SPECULATIVE, "modle": "m"},
    {"speculative_config": SPECULATIVE, "model": ""},
    {"speculative_config": SPECULATIVE, "placement": "apart"},
    {"speculative_config": SPECULATIVE, "serve": "--enforce-eager"},
    {"speculative_config": SPECULATIVE, "serve": [1]},
    {"speculative_config": SPECULATIVE, "command": []},
    {"speculative_config": SPECULATIVE, "env": {"A": True}},
    {"speculative_config": SPECULATIVE, "env": {"A B": "x"}},
    {"speculative_config": SPECULATIVE, "devices": {"baseline": [0]}},
    {"speculative_config": SPECULATIVE, "devices": {"baseline": [-1], "specdec": [1]}},
    {"speculative_config": SPECULATIVE, "devices": {"baseline": [0, 0], "specdec": [1, 2]}},
    {"speculative_config": SPECULATIVE, "workloads": {"code": {}}},
    {"speculative_config": SPECULATIVE, "workloads": {"code": {"path": "c", "weight": 2}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"request_rate": 1, "concurrency": 1}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"concurrency": 1, "top_k": 0}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"concurrency": [8]}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"concurrency": [1, 2.5]}}},
    {"speculative_config": SPECULATIVE, "load": {"low": {"request_rate": [0, 1]}}},
    {"speculative_config": SPECULATIVE, "measure": {"rounds": 1}},
    {"speculative_config": SPECULATIVE, "measure": {"rounds": None}},
    {"speculative_config": SPECULATIVE, "measure": {"allow": ["all"]}},
    {"speculative_config": SPECULATIVE, "startup_timeout_s": 0},
]


def test_the_schema_file_is_up_to_date() -> None:
    file = files("pytest_specdec") / "schema" / "config.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == config_json_schema(), f"run: {REGENERATE}"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(config_json_schema())


@pytest.mark.parametrize("data", GOOD)
def test_the_schema_accepts_what_we_accept(data: dict[str, Any], tmp_path: Path) -> None:
    from pytest_specdec.core.config import load_configs

    VALIDATOR.validate(data)
    (tmp_path / "c.jsonl").write_text("")
    (tmp_path / "c.json").write_text(json.dumps(data))
    load_configs([tmp_path / "c.json"], default_model="m")


@pytest.mark.parametrize("data", BAD)
def test_the_schema_refuses_what_we_refuse(data: Any, tmp_path: Path) -> None:
    from pytest_specdec.core.config import load_configs
    from pytest_specdec.core.errors import ConfigError

    assert not VALIDATOR.is_valid(data)
    (tmp_path / "c.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError):
        load_configs([tmp_path / "c.json"], default_model="m")


def test_every_key_is_in_the_schema_and_none_beside_them() -> None:
    envelope = config_json_schema()["$defs"]["Envelope"]
    assert set(envelope["properties"]) == {*KEYS, "speculative-config"}


SCALARS = st.none() | st.booleans() | st.integers(-3, 20) | st.floats(-2, 20) | st.text(max_size=3)


@settings(deadline=None)
@given(st.sampled_from(sorted(LOAD_FIELDS)), SCALARS.filter(lambda value: value is not None))
def test_named_loads_and_marks_accept_the_same_values(name: str, value: Any) -> None:
    if name == "top_k" and value == 0:
        return  # refused by the rule for both; the model's bound is a plain minimum
    try:
        LoadPoint.model_validate_json(json.dumps({name: value}))
        accepted = True
    except ValidationError:
        accepted = False
    assert accepted == (LOAD_FIELDS[name](value) is None)


def test_named_loads_have_every_field_of_a_mark() -> None:
    assert set(LoadPoint.model_fields) == set(LOAD_FIELDS)
    assert set(MeasureSettings.model_fields) - {"allow"} <= set(LOAD_FIELDS)


def shape(**keys: Any) -> list[tuple[str, str, str]]:
    _, problems = shape_problems({"speculative_config": SPECULATIVE, **keys})
    return [(".".join(map(str, problem.keys)), problem.what, problem.remedy) for problem in problems]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"modle": "m"}, ("modle", "is not a known key", "Did you mean 'model'?")),
        ({"Serve": {}}, ("Serve", "is not a known key", "Did you mean 'serve'?")),
        ({"method": "ngram"}, ("method", "is no key of an envelope", "It belongs inside speculative_config.")),
        ({"measure": {"round": 4}}, ("measure.round", "is not a known key", "Did you mean 'rounds'?")),
        (
            {"load": {"a": {"request-rate": 4}}},
            ("load.a.request-rate", "is not a known key", "Did you mean 'request_rate'?"),
        ),
        (
            {"devices": {"base": [0], "baseline": [0], "specdec": [1]}},
            ("devices.base", "is not a known key", "Did you mean 'baseline'?"),
        ),
        (
            {"placement": "splitt"},
            (
                "placement",
                "must be 'auto', 'together', 'swap', 'sequential' or 'split', not \"splitt\"",
                "Did you mean 'split'?",
            ),
        ),
        ({"placement": 1}, ("placement", "must be 'auto', 'together', 'swap', 'sequential' or 'split', not 1", "")),
        ({"model": 3}, ("model", "must be text, not 3", "")),
        ({"model": ""}, ("model", "must not be empty", "")),
        ({"measure": []}, ("measure", "must be an object, not an empty list", "")),
        ({"workloads": {"a": "a.jsonl"}}, ("workloads.a", 'must be an object, not "a.jsonl"', "")),
        ({"workloads": {"a": {"path": 3}}}, ("workloads.a.path", "must be text, not 3", "")),
        ({"workloads": {"a": {"path": "p", "weight": True}}}, ("workloads.a.weight", "must be a number, not true", "")),
        ({"workloads": {"a": {"path": "p", "weight": 2}}}, ("workloads.a.weight", "must be at most 1, not 2", "")),
        (
            {"workloads": {"a": {"path": "p", "max_tokens": 4.0}}},
            ("workloads.a.max_tokens", "must be a whole number, not 4.0", ""),
        ),
        ({"workloads": {"a": {}}}, ("workloads.a.path", "is missing", "")),
        (
            {"devices": {"baseline": [True], "specdec": [1]}},
            ("devices.baseline.0", "must be a whole number, not true", ""),
        ),
        ({"devices": {"baseline": 0, "specdec": [1]}}, ("devices.baseline", "must be a list, not 0", "")),
        ({"devices": {"baseline": [], "specdec": [1]}}, ("devices.baseline", "must not be empty", "")),
        ({"startup_timeout_s": 0}, ("startup_timeout_s", "must be above 0, not 0", "")),
        ({"startup_timeout_s": "60"}, ("startup_timeout_s", 'must be a number, not "60"', "")),
    ],
)
def test_a_wrong_shape_is_told_in_the_words_of_the_file(keys: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert shape(**keys) == [expected]


def test_an_unknown_key_that_is_near_to_none_lists_the_known_ones() -> None:
    ((_, what, remedy),) = shape(gpu_memory_utilization=0.5)
    assert what == "is not a known key"
    assert all(key in remedy for key in KEYS)
    assert "vLLM's flags go into `serve`" in remedy


def test_known_keys_end_where_the_users_own_names_begin() -> None:
    assert known_keys(("workloads",)) == ()
    assert "path" in known_keys(("workloads", "code"))
    assert known_keys(("workloads", "code", "path")) == ()
