"""``pytest-specdec compare`` and ``pytest-specdec history`` over a folder of saved runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from pytest_specdec.cli import main
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.reporting.history_folder import run_files, save_run
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison

DAY_S = 86_400


def keep(
    folder: Path, comparison: Comparison, *, day: int = 0, name: str = "", branch: str = "main", failed: bool = False
) -> Path:
    gate = GateRecord("test_chat", comparison.config_id, "failed" if failed else "passed", comparison="eagle3/chat")
    document = ResultDocument(
        created_unix_s=1_700_000_000.0 + day * DAY_S,
        environment={},
        comparisons={"eagle3/chat": comparison},
        gates=(gate,),
    )
    return save_run(document, folder, name=name, revision={"commit": f"{day:040x}", "branch": branch})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve days, slower since the seventh."""
    for day in range(12):
        level = 7.0 if day < 6 else 8.4
        noisy = build_comparison(tpot_spec_ms=level, noise=0.02, round_drift=0.005, seed=day)
        keep(tmp_path / "history", noisy, day=day, name="release" if day == 0 else "")
    return tmp_path / "history"


def test_runs_of_one_second_are_kept_beside_each_other(tmp_path: Path) -> None:
    paths = [keep(tmp_path, build_comparison(), name="twice") for _ in range(3)]
    assert len(set(paths)) == 3
    assert run_files(tmp_path) == paths[::-1]


def test_compare_shows_both_and_what_is_beyond_doubt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "release", "last", "--history", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("eagle3, chat, concurrency 4: against release of 2023-11-14 22:13 (00000000, main)")
    (tpot,) = (line for line in lines if line.startswith("  TPOT  "))
    assert tpot.endswith("worse")
    (length,) = (line for line in lines if line.startswith("  acceptance length"))
    assert not length.endswith(("worse", "better"))


def test_compare_as_json_has_the_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "release", "last", "--history", str(folder), "--json"]) == 0
    (compared,) = json.loads(capsys.readouterr().out)["compared"]
    tpot = next(one for one in compared["changes"] if one["quantity"] == "tpot")
    assert tpot["worse"]["low"] < tpot["worse"]["value"] < tpot["worse"]["high"]
    assert tpot["now"]["value"] / tpot["before"]["value"] - 1 == pytest.approx(tpot["worse"]["value"])


def test_compare_refuses_unequal_conditions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = build_comparison()
    one = keep(tmp_path, now)
    other = keep(tmp_path, replace(now, num_speculative_tokens=5), day=1)
    assert main(["compare", str(one), str(other)]) == 2
    assert "num_speculative_tokens 3 against 5" in capsys.readouterr().err


def test_compare_with_a_branch_takes_its_last_run_that_was_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day, failed in enumerate((False, True)):
        keep(tmp_path, build_comparison(), day=day, name=f"day{day}", failed=failed)
    keep(tmp_path, build_comparison(), day=2, branch="feature/x")
    assert main(["compare", "main", "feature/x", "--history", str(tmp_path)]) == 0
    assert "against day0 of" in capsys.readouterr().out


def test_missing_run_is_2_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "last", "last", "--history", str(tmp_path)]) == 2
    assert "--specdec-save" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["history"], ["compare", "last", "last"]])
def test_a_saved_run_that_is_damaged_is_named_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    newest = run_files(folder)[0]
    newest.write_bytes(newest.read_bytes()[:1000])
    assert main([*command, "--history", str(folder)]) == 2
    error = capsys.readouterr().err
    assert f"{newest}: is not JSON" in error
    assert "move it out of the folder of saved runs" in error


def test_history_has_a_row_a_run_and_hints_at_the_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--history", str(folder)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "eagle3, chat, concurrency 4 (eagle3, K 3)"
    assert len([line for line in lines if line.startswith("  2023-11-")]) == 12
    assert "release" in lines[2]
    (hint,) = (line for line in lines if line.startswith("  hint: TPOT is on another level"))
    assert "since 2023-11-20 22:13 (00000000): 7" in hint
    assert "usual change from one run to the next (median): TPOT" in text


def test_history_can_be_narrowed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(folder, build_comparison(), day=20, branch="feature")
    assert main(["history", "--history", str(folder), "--branch", "feature", "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)
    assert [point["branch"] for point in series["points"]] == ["feature"]
    assert main(["history", "--history", str(folder), "--limit", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)[0]["points"]) == 3
    assert main(["history", "--history", str(folder), "--config", "ngram"]) == 2
    assert "holds no saved measurement of config 'ngram'" in capsys.readouterr().err


def test_history_keeps_unequal_conditions_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = build_comparison()
    keep(tmp_path, now)
    keep(tmp_path, replace(now, num_speculative_tokens=5), day=1)
    assert main(["history", "--history", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["conditions"]["num_speculative_tokens"] for one in found] == [5, 3]


def test_history_draws_a_chart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    chart = folder.parent / "trend.svg"
    assert main(["history", "--history", str(folder), "--svg", str(chart)]) == 0
    assert capsys.readouterr().out.endswith(f"chart: {chart}\n")
    text = "".join(ET.fromstring(chart.read_text()).itertext())  # noqa: S314 - we have just written it
    for title in ("TPOT: eagle3", "throughput: eagle3", "acceptance length: eagle3", "TPOT gain: eagle3", "release"):
        assert title in text


def test_saved_run_is_judged_against_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = str(run_files(folder)[0])
    arguments = ["judge", newest, "--slo", 'max_regression={"tpot": 0.05}', "--history", str(folder)]
    assert main([*arguments, "--compare", "release"]) == 1
    assert "1 of 1 objective missed: max_regression[tpot]" in capsys.readouterr().out
    assert main([*arguments, "--compare", newest]) == 0
    assert main(arguments) == 1
    assert "no saved result was given" in capsys.readouterr().out
