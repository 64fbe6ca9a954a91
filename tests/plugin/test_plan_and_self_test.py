"""``--specdec-plan`` starts nothing; ``--specdec-self-test`` measures the baseline against its equal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_plan_names_servers_and_measurements_and_starts_nothing(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "would start*",
            "*baseline*fake_vllm*fake-model*",
            "*specdec*--speculative-config*",
            "*fake, workload tiny: 8 requests at concurrency 4, both sides, 3 rounds",
            "*test_gate.py::test_gate?fake?*",
            "*unknown*last results*",
        ]
    )
    assert not (pytester.path / ".specdec").exists()


def test_a_plan_after_a_run_says_how_long_and_what_it_could_prove(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate()
    pytester.runpytest("--specdec-config=fake.json")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-plan")
    result.stdout.fnmatch_lines(["*takes about * of measuring*", "*could tell a TPOT gain*after 3 rounds*"])


def test_a_self_test_finds_no_gain_between_equals(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(measure={"rounds": 2, "max_rounds": 5})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-self-test")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*5 rounds of two equal servers*", "*tpot_gain*pp*", "*of 10 gates of 2 rounds*"])
    (comparison,) = json.loads((pytester.path / ".specdec" / "self-test.json").read_text())["comparisons"].values()
    assert all(run["counters"]["drafts"] is None for run in comparison["runs"])
    assert not any("--speculative-config" in server["command"] for server in comparison["servers"])


def test_a_plan_refuses_a_workload_that_is_not_there(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(workloads={"tinny": {"path": "tiny.jsonl"}})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no workload is called 'tiny'; did you mean 'tinny'?*"])


def test_a_self_test_that_cannot_measure_is_red(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"exit_at_start": {"code": 1, "message": "ValueError: no such model"}})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-self-test")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*could not measure*no such model*"])


@pytest.mark.parametrize("option", ["--specdec-self-test", "--specdec-tune"])
def test_tests_that_measure_nothing_are_refused(
    pytester: pytest.Pytester, write_config: Callable[..., None], option: str
) -> None:
    write_config()
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest("--specdec-config=fake.json", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no selected test measures anything*select one that uses spec_comparison*"])


@pytest.mark.parametrize(
    "option",
    [
        "--specdec-plan",
        "--specdec-self-test",
        "--specdec-tune",
        "--specdec-dynamic",
        "--specdec-attach=http://127.0.0.1:1,http://127.0.0.1:2",
    ],
)
def test_without_a_config_what_needs_one_is_refused_and_not_left_out(
    pytester: pytest.Pytester, write_gate: Callable[..., None], option: str
) -> None:
    write_gate()
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]} needs a config: give --specdec-config=FILE*"])


def test_two_purposes_are_refused(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-tune", "--specdec-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--specdec-plan and --specdec-tune are runs of their own: give one of them"])
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-replace")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--specdec-replace lets --specdec-dynamic replace a config, and that is not given"])
