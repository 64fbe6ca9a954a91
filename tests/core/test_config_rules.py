from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.config_rules import rule_problems, shown

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}


def found(**keys: Any) -> list[tuple[str, str]]:
    """Severity and last key of each problem."""
    return [(p.severity, str(p.keys[-1])) for p in rule_problems({"speculative_config": NGRAM, **keys})]


def words(**keys: Any) -> str:
    return "\n".join(f"{p.what}. {p.remedy}" for p in rule_problems({"speculative_config": NGRAM, **keys}))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "is missing"),
        ({"speculative_config": None}, "is null: vLLM would start without speculation"),
        ({"speculative_config": []}, "must be an object, not an empty list"),
        ({"speculative_config": "ngram"}, "is a text"),
        ({"speculative_config": {}}, "is empty"),
    ],
)
def test_without_a_speculative_config_there_is_nothing_to_compare(data: dict[str, Any], expected: str) -> None:
    (problem,) = rule_problems({"serve": {}, **data})
    assert expected in problem.what


def test_what_stands_inside_the_speculative_config_is_vllms_business() -> None:
    assert list(rule_problems({"speculative_config": {"method": None, "x": {"y": None}, "temperature": [None]}})) == []


@pytest.mark.parametrize("key", ["serve", "env", "placement", "measure", "devices", "load", "workloads", "command"])
def test_a_key_without_a_value_is_refused(key: str) -> None:
    assert found(**{key: None}) == [("error", key)]


def test_a_null_deep_inside_is_refused_where_it_stands() -> None:
    problems = list(rule_problems({"speculative_config": NGRAM, "load": {"low": {"concurrency": 1, "seed": None}}}))
    assert [problem.keys for problem in problems] == [("load", "low", "seed")]


def test_a_flag_without_a_value_is_refused_and_null_inside_a_json_flag_is_not() -> None:
    assert found(serve={"max_model_len": None}) == [("error", "max_model_len")]
    assert found(serve={"hf_overrides": {"rope_scaling": None}}) == []


@pytest.mark.parametrize("env", [[], "A=b", 3])
def test_env_has_names_and_values(env: Any) -> None:
    assert "object of names and values" in words(env=env)


@pytest.mark.parametrize("name", ["A B", "1A", "", "A=B", "Ä"])
def test_a_name_that_is_no_variable_is_refused(name: str) -> None:
    assert "not the name of an environment variable" in words(env={name: "x"})


@pytest.mark.parametrize("value", [True, 0.5, [], {}])
def test_an_environment_value_that_has_no_one_spelling_is_refused_without_being_shown(value: Any) -> None:
    assert found(env={"HF_TOKEN": value}) == [("error", "HF_TOKEN")]
    assert "Put the value in quotes" in words(env={"HF_TOKEN": value})


@pytest.mark.parametrize("value", ["", "x", 2, -1])
def test_text_and_whole_numbers_are_environment_values(value: Any) -> None:
    assert found(env={"A": value}) == []


@pytest.mark.parametrize("name", ["VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR"])
def test_variables_that_make_two_servers_collide_are_refused(name: str) -> None:
    assert found(env={name: "1"}) == [("error", name)]


def test_devices_and_cuda_visible_devices_contradict_each_other() -> None:
    both = {"baseline": [0], "specdec": [1]}
    assert found(env={"CUDA_VISIBLE_DEVICES": "0"}, devices=both) == [("error", "CUDA_VISIBLE_DEVICES")]
    assert found(env={"CUDA_VISIBLE_DEVICES": "0"}) == []


def test_a_variable_that_keeps_vllm_from_drafting_is_warned_about() -> None:
    assert found(env={"VLLM_ENABLE_V1_MULTIPROCESSING": 0}) == [("warning", "VLLM_ENABLE_V1_MULTIPROCESSING")]
    assert found(env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}) == []


@pytest.mark.parametrize(
    ("devices", "placement", "expected"),
    [
        ({"baseline": [0], "specdec": [1]}, "split", None),
        ({"baseline": [0], "specdec": [0]}, "together", None),
        ({"baseline": [0], "specdec": [0]}, "split", "shares a device"),
        ({"baseline": [0, 1], "specdec": [2]}, "split", "one server 2 and the other 1 devices"),
        ({"baseline": [0, 0], "specdec": [1, 2]}, "split", "names a device twice"),
    ],
)
def test_devices_give_both_servers_the_same_work(devices: Any, placement: str, expected: str | None) -> None:
    text = words(devices=devices, placement=placement)
    assert expected in text if expected else text == ""


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ({"request_rate": 1}, None),
        ({"concurrency": 8, "temperature": 0.8, "top_k": -1, "max_failures": 0.01}, None),
        ({"request_rate": 1, "concurrency": 8}, "both request_rate and concurrency"),
        ({"num_requests": 8}, "neither request_rate nor concurrency"),
        ({"concurrency": 8, "load": "low"}, "does not name another"),
        ({"concurrency": 0}, "needs a whole number of at least 1, not 0"),
        ({"concurrency": [1, 8]}, None),
        ({"concurrency": [8, 1]}, "two values or more that rise, such as [1, 8, 32], where it is a list, not a list"),
        ({"concurrency": True}, "not true"),
        ({"request_rate": 0}, "requests per second, above 0"),
        ({"request_rate": "2"}, 'not "2"'),
        ({"concurrency": 8, "top_p": 0}, "above 0 and at most 1"),
        ({"concurrency": 8, "top_k": 0}, "at least 1, or -1"),
        ({"concurrency": 8, "rounds": 1}, "at least 2"),
        ({"concurrency": 8, "rounds": 8, "max_rounds": 4}, "is 8, above max_rounds, 4"),
        ({"concurrency": 8, "workload": ""}, "name or path of a workload"),
        ({"concurrency": 8, "max_failures": 1}, "below 1"),
    ],
)
def test_a_named_load_has_one_rate_and_the_bounds_of_a_mark(point: Any, expected: str | None) -> None:
    text = words(load={"low": point})
    assert expected in text if expected else text == ""


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ({"rounds": 2, "max_rounds": 2, "confidence": 0.5}, None),
        ({"confidence": 95}, "such as 0.95, not 95"),
        ({"rounds": 1}, "at least 2"),
        ({"rounds": 12, "max_rounds": 4}, "above max_rounds"),
        ({"budget_s": 0}, "seconds, above 0"),
    ],
)
def test_measure_has_the_bounds_of_a_mark(measure: Any, expected: str | None) -> None:
    text = words(measure=measure)
    assert expected in text if expected else text == ""


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.6, 0.4], None),
        ([None, None], None),
        ([1 / 3, 1 / 3, 1 / 3], None),
        ([0.6, 0.6], "sum to 1.2"),
        ([60, 40], "sum to 100"),
        ([0.6, None], "none for w1"),
    ],
)
def test_weights_are_shares_of_the_whole(weights: list[float | None], expected: str | None) -> None:
    workloads = {
        f"w{n}": {"path": "p"} | ({} if weight is None else {"weight": weight}) for n, weight in enumerate(weights)
    }
    text = words(workloads=workloads)
    assert expected in text if expected else text == ""


@pytest.mark.parametrize(
    "keys",
    [
        {"measure": 3, "load": 3, "workloads": 3, "devices": 3},
        {"load": {"a": 3}, "workloads": {"a": 3, "b": {"weight": "1"}}, "devices": {"baseline": 3, "specdec": []}},
        {"devices": {"baseline": [{}], "specdec": [[]]}},
    ],
)
def test_rules_keep_quiet_about_parts_of_the_wrong_type(keys: dict[str, Any]) -> None:
    assert found(**keys) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        ("x", '"x"'),
        ({}, "an empty object"),
        ([1], "a list"),
        ("x" * 99, f'"{"x" * 60}..."'),
    ],
)
def test_values_are_shown_as_in_the_file_and_never_at_length(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("key", "value", "keys"),
    [
        ("serve", {"port": 1}, ("serve", "port")),
        ("serve_specdec", ["--port"], ("serve_specdec", 0)),
        ("command", [], ("command",)),
        ("stop_command", "", ("stop_command",)),
    ],
)
def test_the_rules_of_the_command_line_are_among_them(key: str, value: Any, keys: tuple[str | int, ...]) -> None:
    assert [problem.keys for problem in rule_problems({"speculative_config": NGRAM, key: value})] == [keys]
