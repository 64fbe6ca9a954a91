"""Two arms that another tool measured: what may be judged, what stays unsure, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specdec.cli import main
from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement, ResultFileError
from pytest_specdec.core.samples import ServerCounters
from pytest_specdec.core.verdict import Requirement
from pytest_specdec.exchange.arm_files import read_arm
from pytest_specdec.exchange.comparing import comparison_of, judge_arms

BENCH = Path(__file__).parents[1] / "data" / "bench"
TOOLS = {"vllm": "vllm_{}.jsonl", "guidellm": "guidellm_{}.json", "aiperf": "aiperf_{}.jsonl"}


def paths(tool: str) -> tuple[Path, Path]:
    return BENCH / TOOLS[tool].format("baseline"), BENCH / TOOLS[tool].format("specdec")


def judge(*arguments: str | Path) -> int:
    return main(["judge", *map(str, arguments)])


def test_several_runs_of_vllm_bench_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    base, spec = paths("vllm")
    assert judge("--baseline", base, "--specdec", spec, "--slo", "tpot_gain=0.3", "--slo", "throughput_gain=0") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "specdec against baseline: 2 of 2 objectives met"
    assert "  vllm bench serve: 2 runs of 12 requests of each arm, at concurrency 4" in lines


@pytest.mark.parametrize("tool", TOOLS)
def test_missed_objective_blocks(tool: str) -> None:
    base, spec = paths(tool)
    assert judge("--baseline", base, "--specdec", spec, "--slo", "min_acceptance_length=3.5") == 1


@pytest.mark.parametrize("tool", ["guidellm", "aiperf"])
def test_one_run_of_each_arm_proves_no_time(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    base, spec = paths(tool)
    given = (
        "--baseline",
        base,
        "--specdec",
        spec,
        "--slo",
        "tpot_gain=0.1",
        "--slo",
        "min_acceptance_length=1.5",
        "--json",
    )
    assert judge(*given) == 1
    (judged,) = json.loads(capsys.readouterr().out)
    gain, length = judged["verdicts"]
    assert (gain["outcome"], gain["estimate"]["low"], gain["estimate"]["high"]) == ("unsure", None, None)
    assert gain["estimate"]["value"] == pytest.approx(0.51, abs=0.03)
    assert length["outcome"] == "ok"
    assert judge(*given, "--unsure", "pass") == 0


def test_without_objectives_the_figures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    base, spec = paths("guidellm")
    assert judge("--baseline", base, "--specdec", spec) == 0
    out = capsys.readouterr().out
    assert "specdec against baseline: nothing judged" in out
    assert "acceptance length 2.54" in out
    assert "tok/s" not in out  # two times a request do not tell a steady window


def test_dead_server_is_no_gain_of_100_percent(capsys: pytest.CaptureFixture[str]) -> None:
    base = BENCH / "bench_spec.json"
    dead = BENCH / "bench_dead_server_rc0.json"
    assert judge("--baseline", base, "--specdec", dead, "--slo", "tpot_gain=0.3") == 1
    assert "ERROR" in capsys.readouterr().out
    assert judge("--baseline", dead, "--specdec", base, "--slo", "tpot_gain=0.3") == 1
    assert "ERROR: 12 of 12 requests of the baseline arm failed" in capsys.readouterr().out


def test_baseline_that_speculates_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    _, spec = paths("vllm")
    assert judge("--baseline", spec, "--specdec", spec, "--slo", "tpot_gain=0") == 1
    assert "ERROR: the baseline speculates too" in capsys.readouterr().out


def test_vllm_bench_without_counters_means_no_speculation(capsys: pytest.CaptureFixture[str]) -> None:
    base, _ = paths("vllm")
    assert judge("--baseline", base, "--specdec", base, "--slo", "tpot_gain=0") == 1
    assert "ERROR: speculation cannot be confirmed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tool", "objective", "said"),
    [
        ("guidellm", "chunk_gap_p95_ms", "GuideLLM keeps the times of the first and the last token only"),
        ("guidellm", "throughput_gain", "needs the time of every chunk"),
        ("aiperf", "throughput_gain", "AIPerf's records do not tell it"),
        ("vllm", "itl_p95_ms", "what vllm bench serve and others call ITL is chunk_gap_*"),
        ("vllm", "min_tokens_per_step", "decode steps"),
        ("vllm", "lossless", "token ids"),
        ("vllm", "max_gpu_memory_gib", "what such files do not hold"),
    ],
)
def test_what_a_file_does_not_hold_is_named(tool: str, objective: str, said: str) -> None:
    base, spec = (read_arm([path]) for path in paths(tool))
    with pytest.raises(CannotMeasure) as caught:
        judge_arms(comparison_of(base, spec), [Requirement(objective, 0.5)], spec)
    assert said in str(caught.value)


def test_acceptance_that_the_server_did_not_tell_is_named_and_times_are_judged() -> None:
    base, spec = (read_arm([path]) for path in paths("guidellm"))
    spec = tuple(
        replace(
            run,
            counters=ServerCounters(),
            missing={**run.missing, "acceptance": "not told"},
            samples=tuple(replace(one, spec=None) for one in run.samples),
        )
        for run in spec
    )
    comparison = comparison_of(base, spec)
    assert "these files do not tell whether the server speculated" in comparison.notes
    with pytest.raises(CannotMeasure, match="min_acceptance_length needs the server's counts of drafts: not told"):
        judge_arms(comparison, [Requirement("min_acceptance_length", 1.5)], spec)
    (verdict,) = judge_arms(comparison, [Requirement("tpot_gain", 0.3)], spec)
    assert verdict.estimate.value == pytest.approx(0.51, abs=0.03)


def test_unequal_conditions_are_refused_by_name() -> None:
    base, spec = (read_arm([path]) for path in paths("vllm"))
    with pytest.raises(InvalidMeasurement, match=r"concurrency 4 in .*, 8 in "):
        comparison_of(base, [replace(run, concurrency=8) for run in spec])
    with pytest.raises(InvalidMeasurement, match=r"number of requests 12 in .*, 11 in "):
        comparison_of(base, [replace(run, samples=run.samples[:11]) for run in spec])
    other = [replace(run, samples=(replace(run.samples[0], prompt_tokens=999), *run.samples[1:])) for run in spec]
    with pytest.raises(InvalidMeasurement, match=r"the prompt of request 0 has .* tokens in .*, 999 in "):
        comparison_of(base, other)


def test_unequal_numbers_of_runs_are_refused() -> None:
    base, spec = (read_arm([path]) for path in paths("vllm"))
    with pytest.raises(ResultFileError, match="2 runs of the baseline and 1 of the speculating server"):
        comparison_of(base, spec[:1])


@pytest.mark.parametrize(("starts", "noted"), [((0, 1, 2, 3), True), ((0, 2, 1, 3), False)])
def test_runs_that_were_not_made_in_turns_are_noted(starts: tuple[int, ...], noted: bool) -> None:  # noqa: FBT001 - a case
    base, spec = (read_arm([path]) for path in paths("vllm"))
    moved = [replace(run, started_unix_s=1000.0 + start) for run, start in zip((*base, *spec), starts, strict=True)]
    notes = comparison_of(moved[:2], moved[2:]).notes
    assert any("not made in turns" in note for note in notes) == noted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--baseline", "a.json"), "--specdec is missing"),
        (("r.json", "--baseline", "a.json", "--specdec", "b.json"), "a saved result and two arms"),
        (("r.json",), "there is nothing to judge by"),
    ],
)
def test_arguments_that_do_not_belong_together_are_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(*arguments) == 2
    assert said in capsys.readouterr().err
