from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.serve_rules import command_problems, serve_problems

BOTH_WAYS = [
    ({"speculative_config": {"method": "ngram"}}, "speculative_config"),
    ({"speculative-config": "{}"}, "speculative-config"),
    ({"speculative_config.method": "ngram"}, "speculative_config.method"),
    ({"-sc": "{}"}, "-sc"),
    ({"sc": "{}"}, "sc"),
    ({"spec_method": "ngram"}, "spec_method"),
    ({"--speculative-model": "x"}, "--speculative-model"),
    (["--enforce-eager", "--speculative-config", "{}"], 1),
    (["--speculative_config={}"], 0),
    (["--speculative-config.num_speculative_tokens", "5"], 0),
    (["-sc", "{}"], 0),
    (["-sc.method=ngram"], 0),
    (["--spec-tokens=3"], 0),
    (["--speculative-c", "{}"], 0),
]


@pytest.mark.parametrize(("serve", "key"), BOTH_WAYS)
def test_speculation_hidden_in_the_flags_of_both_servers_is_refused(serve: Any, key: str | int) -> None:
    (problem,) = serve_problems("serve", serve)
    assert problem.keys == ("serve", key)
    assert "the baseline would speculate too" in problem.what


@pytest.mark.parametrize(("serve", "key"), BOTH_WAYS)
def test_speculation_has_one_place_also_on_the_speculating_side(serve: Any, key: str | int) -> None:
    (problem,) = serve_problems("serve_specdec", serve)
    assert problem.keys == ("serve_specdec", key)
    assert "one place only" in problem.what


@pytest.mark.parametrize(
    "serve",
    [
        {
            "max_model_len": 8192,
            "enforce_eager": True,
            "enable_prefix_caching": False,
            "compilation_config": {"level": 3},
        },
        {
            "max_model_len": 1,
            "compilation_config.level": 3,
            "compilation_config.mode": 1,
            "lora_modules": ["a=b", {"name": "c"}, 3],
        },
        {"per_request_spec_decode_metrics": "none", "disable_log_stats": False, "tp": 2},
        ["--max-model-len", "8192", "-tp=2", "--no-disable-log-stats", "--chat-template-content-format", "auto"],
        ["--hf-overrides", '{"a": 1, "--spec": 2}'],
        {"override_generation_config": {"temperature": 0.5, "min_p": 0}, "specialize_active_lora": True},
        {},
        [],
    ],
)
def test_ordinary_flags_are_nobodys_problem(serve: Any) -> None:
    assert list(serve_problems("serve", serve)) == []


@pytest.mark.parametrize(
    "flag", ["model", "port", "host", "uds", "served_model_name", "served-model-name", "--port", "ssl_keyfile"]
)
def test_what_the_plugin_chooses_is_refused(flag: str) -> None:
    (problem,) = serve_problems("serve", {flag: "x"})
    assert problem.keys == ("serve", flag)
    assert problem.what.startswith("must not be set here: ")


@pytest.mark.parametrize(
    "serve", [{"disable_log_stats": True}, ["--disable-log-stats"], ["--disable_log_stats"], ["--disable-log-stat"]]
)
@pytest.mark.parametrize("side", ["serve", "serve_specdec"])
def test_a_server_without_counters_is_refused(serve: Any, side: str) -> None:
    (problem,) = serve_problems(side, serve)
    assert "every vllm: counter" in problem.what


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        ("--enforce-eager", "an object of flags, or a list of words"),
        (3, "an object of flags, or a list of words"),
        ({"a b": 1}, "not the name of a flag"),
        ({"max_model_len=3": True}, "not the name of a flag"),
        ({"": 1}, "not the name of a flag"),
        ({"max_model_len": 1, "max-model-len": 2}, "is the same flag as max_model_len"),
        ({"tp": 1, "tensor_parallel_size": 2}, "is the same flag as tp"),
        ({"lora_modules": []}, "is an empty list"),
        ({"lora_modules": [None]}, "text, numbers and objects"),
        ({"lora_modules": [True]}, "text, numbers and objects"),
        ({"lora_modules": ["a=b", "-c"]}, "would take it for the next flag"),
        ({"lora_modules": [["x"]]}, "text, numbers and objects"),
        (["--max-model-len", 8192], "must be text"),
        (["--max-model-len 8192"], "several words in one"),
    ],
)
def test_flags_that_cannot_become_words_are_refused(serve: Any, expected: str) -> None:
    (problem,) = serve_problems("serve", serve)
    assert expected in f"{problem.what} {problem.remedy}"


@pytest.mark.parametrize(
    "command",
    [
        ["vllm", "serve"],
        "vllm serve",
        ["python", "-m", "vllm.entrypoints.openai.api_server"],
        "'/opt/my venv/bin/vllm' serve",
        ["numactl", "-N", "0", "vllm", "serve"],
        ["bash", "-c", 'exec vllm serve "$@"', "-"],
    ],
)
def test_launchers_of_many_kinds_are_fine(command: Any) -> None:
    assert list(command_problems({"command": command})) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([], "is empty"),
        ("", "is empty"),
        ("  ", "is empty"),
        (["vllm", ""], "an empty word"),
        (["vllm", 3], "a list of words"),
        ({"vllm": "serve"}, "a list of words"),
        (3, "a list of words"),
        ('vllm "serve', "cannot be split into words (no closing quotation)"),
        (["vllm", "serve", "org/model"], "names a model, org/model"),
        (["vllm", "serve", "--port", "8000"], "--port must not be set here"),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model=m"], "--model must not be set here"),
        (["vllm", "serve", "-sc", "{}"], "the baseline would speculate too"),
        (["bash", "-c", "vllm serve --speculative-config={}"], "--speculative-config switches speculation on"),
        (["vllm", "serve", "--disable-log-stats"], "every vllm: counter"),
    ],
)
def test_a_command_that_cannot_start_a_fair_server_is_refused(command: Any, expected: str) -> None:
    (problem,) = command_problems({"command": command})
    assert problem.keys == ("command",)
    assert expected in problem.what


def test_a_stop_command_is_a_command() -> None:
    (problem,) = command_problems({"stop_command": []})
    assert problem.keys == ("stop_command",)


CONTAINER = "docker run --rm --network host --gpus all vllm/vllm-openai"


@pytest.mark.parametrize("program", ["docker", "podman", "/usr/bin/docker", "sudo docker", "nerdctl"])
def test_a_container_without_stop_command_is_refused_because_it_would_stay(program: str) -> None:
    (problem,) = command_problems({"command": CONTAINER.replace("docker", program, 1)})
    assert problem.keys == ("command",)
    assert "leaves the container and its GPU memory behind" in problem.what
    assert "stop_command" in problem.remedy


def test_a_container_with_stop_command_is_fine() -> None:
    assert list(command_problems({"command": CONTAINER, "stop_command": ["docker", "rm", "-f", "{name}"]})) == []


def test_a_container_that_cannot_be_reached_is_refused() -> None:
    (problem,) = command_problems(
        {"command": CONTAINER.replace("--network host", "-p 8000:8000"), "stop_command": "true"}
    )
    assert "--network host" in problem.remedy


def test_devices_do_not_reach_into_a_container() -> None:
    (problem,) = command_problems(
        {"command": CONTAINER, "stop_command": "true", "devices": {"baseline": [0], "specdec": [1]}}
    )
    assert problem.keys == ("devices",)


def test_variables_that_are_not_passed_into_the_container_are_warned_about() -> None:
    command = CONTAINER.replace("--rm", "--rm -e HF_TOKEN")
    env = {"HF_TOKEN": "x", "VLLM_LOGGING_LEVEL": "DEBUG"}
    (problem,) = command_problems({"command": command, "stop_command": "true", "env": env})
    assert (problem.severity, problem.keys) == ("warning", ("env",))
    assert "VLLM_LOGGING_LEVEL" in problem.what
    assert "HF_TOKEN" not in problem.what


@pytest.mark.parametrize(
    "serve",
    [
        {"override_generation_config": {"min_p": 0.1}},
        {"override_generation_config": '{"min_p": 0.1}'},
        {"override_generation_config.min_p": 0.1},
        ["--override-generation-config", '{"min_p": 0.1}'],
        ["--override_generation_config.min_p=0.1"],
    ],
)
def test_defaults_for_requests_that_speculation_refuses_are_refused(serve: Any) -> None:
    (problem,) = serve_problems("serve", serve)
    assert "sets min_p for every request, and with speculation vLLM answers such requests with HTTP 400" in problem.what


def test_figures_for_each_request_keep_a_server_without_speculation_from_starting() -> None:
    (problem,) = serve_problems("serve", {"per_request_spec_decode_metrics": "summary"})
    assert "which the baseline is, refuses to start" in problem.what
    assert list(serve_problems("serve_specdec", {"per_request_spec_decode_metrics": "summary"})) == []


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("--num-speculative-tokens", "speculative_config.num_speculative_tokens"),
        ("--ngram_prompt_lookup_max=3", "speculative_config.prompt_lookup_max"),
        ("--use-v2-block-manager", "Remove it"),
    ],
)
def test_flags_of_old_are_refused_with_the_key_that_took_their_place(word: str, instead: str) -> None:
    (problem,) = serve_problems("serve", [word])
    assert "gone since vLLM 0.9.0" in problem.what
    assert instead in problem.remedy


@pytest.mark.parametrize(("count", "warnings"), [({"api_server_count": 4}, 1), (["-asc", "4"], 1), ({"asc": 1}, 0)])
@pytest.mark.parametrize("side", ["serve", "serve_specdec"])
def test_a_module_that_ignores_the_number_of_api_servers_is_told(count: Any, warnings: int, side: str) -> None:
    module = ["python", "-m", "vllm.entrypoints.openai.api_server"]
    found = list(command_problems({"command": module, side: count}))
    assert [(problem.severity, problem.keys) for problem in found] == [("warning", (side,))] * warnings
    assert list(command_problems({"command": ["vllm", "serve"], side: count})) == []
    assert list(command_problems({"command": module, side: 3})) == []
    (problem,) = command_problems({"command": [*module, "--api-server-count", "4"]})
    assert problem.keys == ("command",)
