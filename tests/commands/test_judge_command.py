"""``pytest-specdec judge``: a saved session judged by other objectives, with the gate's exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_specdec.cli import main

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
