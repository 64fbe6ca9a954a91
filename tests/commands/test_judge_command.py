"""``pytest-specdec judge``: a saved session judged by other objectives, with the gate's exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.cli import main
from pytest_specdec.core.crossover_verdicts import judge_sweep, measured_sweeps
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.reporting.result_file import write_result
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


def judge(*arguments: str) -> int:
    return main(["judge", str(SAVED), *arguments])


def test_met_objective_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", "tpot_gain=0.1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "eagle3/chat: 1 of 1 objective met"
    assert lines[2].split() == [
        "ok",
        "tpot_gain",
        ">=",
        "10.0",
        "%",
        "21.1",
        "%",
        "(+11.1",
        "pp)",
        "16.2",
        "..",
        "25.7",
        "%",
    ]


def test_missed_objective_is_1_with_the_table_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", "tpot_gain=0.3") == 1
    assert capsys.readouterr().out.startswith("eagle3/chat: 1 of 1 objective missed: tpot_gain 21.1 % < 30 %\n")


def test_verdict_is_the_one_of_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", "tpot_gain=0.3") == 1
    again = capsys.readouterr().out.splitlines()[2].split()
    assert main(["show", str(SAVED)]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  FAIL    tpot_gain"))
    assert again == shown.split()


@pytest.mark.parametrize(("extra", "code"), [((), 1), (("--unsure", "pass"), 0)])
def test_unsure_objective_is_as_asked(extra: tuple[str, ...], code: int) -> None:
    assert judge("--slo", "tpot_gain=0.2", *extra) == code


def test_higher_confidence_widens_the_interval(capsys: pytest.CaptureFixture[str]) -> None:
    judge("--slo", "tpot_gain=0.1", "--json")
    usual = json.loads(capsys.readouterr().out)[0]["verdicts"][0]["estimate"]
    judge("--slo", "tpot_gain=0.1", "--json", "--confidence", "0.999")
    wide = json.loads(capsys.readouterr().out)[0]["verdicts"][0]["estimate"]
    assert wide["low"] < usual["low"] < usual["value"] < usual["high"] < wide["high"]


def test_positions_are_given_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", 'min_acceptance_at={"0": 0.01}', "--json") == 0
    (verdict,) = json.loads(capsys.readouterr().out)[0]["verdicts"]
    assert verdict["requirement"]["part"] == "0"


def test_what_has_no_number_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", "e2el_gain=0.1") == 1
    assert "ERROR: e2el_gain compares whole answers" in capsys.readouterr().out


def test_config_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", "tpot_gain=0.1", "--config", "eagle3") == 0
    assert judge("--slo", "tpot_gain=0.1", "--config", "eagle") == 2
    assert "holds no measurement of config 'eagle', did you mean 'eagle3'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("tpot_gain", "must be NAME=VALUE"),
        ("tpot_gian=0.3", "unknown objective 'tpot_gian', did you mean 'tpot_gain'?"),
        ("nonsense=1", "unknown objective 'nonsense'; known: tpot_gain, ttft_gain, "),
        ("tpot_gain=30", "did you mean 0.3?"),
        ("tpot_gain=much", "needs a number, not a string"),
        ("tpot_gain=NaN", "needs a finite number"),
        ("tpot_gain=true", "not a boolean"),
    ],
)
def test_objective_that_means_nothing_is_2(given: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("--slo", given) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert reason in captured.err


def test_file_that_is_no_result_is_2(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    assert main(["judge", str(tmp_path / "other.json"), "--slo", "tpot_gain=0.1"]) == 2


@pytest.mark.parametrize("given", ["95", "high", "1"])
def test_confidence_that_is_none_is_2(given: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        judge("--slo", "tpot_gain=0.1", "--confidence", given)


def at(concurrency: int, tpot_spec_ms: float, config_id: str = "eagle3") -> Comparison:
    load = LoadSpec(concurrency=concurrency, max_tokens=33)
    built = build_comparison(tpot_spec_ms=tpot_spec_ms, requests=4 * concurrency, load=load, noise=0.01)
    return replace(built, config_id=config_id)


@pytest.fixture(scope="module")
def swept() -> dict[str, Comparison]:
    """Gains of 30, 10 and -20 %, in no order, and a config that was measured at one load."""
    return {"e/chat#3": at(8, 12), "e/chat": at(2, 7), "e/chat#2": at(4, 9), "n/chat": at(4, 9, "ngram")}


def judge_swept(
    swept: dict[str, Comparison], tmp_path: Path, *arguments: str, gates: tuple[GateRecord, ...] = ()
) -> int:
    path = tmp_path / "swept.json"
    write_result(ResultDocument(created_unix_s=0.0, environment={}, comparisons=swept, gates=gates), path)
    return main(["judge", str(path), *arguments])


@pytest.mark.parametrize(("required", "code"), [(4, 0), (5, 1), (8, 1)])
def test_a_crossover_is_judged_over_the_loads_of_a_config(
    swept: dict[str, Comparison], tmp_path: Path, required: int, code: int
) -> None:
    assert judge_swept(swept, tmp_path, "--slo", f"min_crossover_concurrency={required}") == code


def test_a_sweep_shows_gain_against_load_and_what_is_none_is_not_judged(
    swept: dict[str, Comparison], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_swept(swept, tmp_path, "--slo", "min_crossover_concurrency=8") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("e/chat, 3 loads: 1 of 1 objective missed: min_crossover_concurrency ")
    assert any(line.strip().startswith("the TPOT gain is gone at concurrency") for line in lines)
    assert "n/chat: nothing judged" in lines


def test_other_objectives_are_judged_at_every_load_of_the_sweep(
    swept: dict[str, Comparison], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slos = ("--slo", "tpot_gain=0.05", "--slo", "min_crossover_concurrency=4", "--json")
    assert judge_swept(swept, tmp_path, *slos) == 1
    sweep, alone = json.loads(capsys.readouterr().out)
    outcomes = {
        (one["requirement"]["objective"], one["requirement"]["at"]): one["outcome"] for one in sweep["verdicts"]
    }
    assert outcomes == {
        ("tpot_gain", "concurrency 2"): "ok",
        ("tpot_gain", "concurrency 4"): "ok",
        ("tpot_gain", "concurrency 8"): "FAIL",
        ("min_crossover_concurrency", ""): "ok",
    }
    assert (sweep["comparison"], sweep["sweep"]) == ("e/chat#3", ["e/chat", "e/chat#2", "e/chat#3"])
    assert [one["requirement"]["objective"] for one in alone["verdicts"]] == ["tpot_gain"]


def test_the_verdict_is_the_one_of_the_gates_own_sweep(
    swept: dict[str, Comparison], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = ("e/chat", "e/chat#2")
    gate = GateRecord("test_a.py::test_sweep[e]", "eagle3", "passed", comparison="e/chat", points=points)
    assert judge_swept(swept, tmp_path, "--slo", "min_crossover_concurrency=4", "--json", gates=(gate,)) == 0
    sweep, *others = json.loads(capsys.readouterr().out)
    assert tuple(sweep["sweep"]) == points
    (expected,) = judge_sweep([swept[key] for key in points], REGISTRY["min_crossover_concurrency"].parse(4))
    (verdict,) = sweep["verdicts"]
    assert (verdict["estimate"]["low"], verdict["estimate"]["level"]) == (
        expected.estimate.low,
        expected.estimate.level,
    )
    assert [one["verdicts"] for one in others] == [[], []]


@pytest.mark.parametrize(
    ("slo", "reason"),
    [
        ("min_crossover_concurrency=16", "lies above the highest load of the sweep, 8"),
        ("min_crossover_rate=5", "Declare min_crossover_concurrency"),
    ],
)
def test_a_sweep_that_cannot_tell_blocks(
    swept: dict[str, Comparison], tmp_path: Path, slo: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_swept(swept, tmp_path, "--slo", slo) == 1
    assert reason in capsys.readouterr().out


def test_without_a_sweep_a_crossover_has_no_number(
    swept: dict[str, Comparison], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_swept(swept, tmp_path, "--slo", "min_crossover_concurrency=4", "--config", "ngram") == 1
    assert "n/chat: ERROR: a crossover needs the gain at several loads" in capsys.readouterr().out


def test_of_two_equal_loads_the_one_with_more_requests_counts(swept: dict[str, Comparison]) -> None:
    load = LoadSpec(concurrency=4, max_tokens=33)
    few = build_comparison(requests=4, load=load)
    (sweep,) = measured_sweeps({"few": few, **swept})
    assert list(sweep) == ["e/chat", "e/chat#2", "e/chat#3"]
