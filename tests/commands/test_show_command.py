"""``pytest-specdec show``: a saved session, printed again and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.cli import main

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["show", str(SAVED)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["show", str(SAVED), "--json"]) == 0
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


def test_every_gate_has_its_row(shown: list[str]) -> None:
    objectives = (
        "tpot_gain 21.1 % < 30 %, min_acceptance_length 1.31 < 1.5, ttft_p95_ms <= 53 not proven (51.0 .. ?), "
        "throughput_gain 21.6 % >= 0 %"
    )
    assert [*shown[:2], shown[2].strip(), *shown[3:5]] == [
        "verdict   test                                    TPOT gain                 AL     faster",
        "FAIL      tests/test_chat.py::test_chat[eagle3]   21.1 % (16.2 .. 25.7 %)   1.31   1.27x",
        objectives,
        "ERROR     tests/test_code.py::test_code[eagle3]   -                         -      -",
        "tests/test_code.py::test_code[eagle3]: could not measure: no server came up",
    ]


def test_judged_gate_has_its_table(shown: list[str]) -> None:
    start = shown.index("tests/test_chat.py::test_chat[eagle3]")
    assert shown[start - 1 : start + 3] == [
        "",
        "tests/test_chat.py::test_chat[eagle3]",
        "          objective                required     measured                 98.75 % interval (4 looks)",
        "  FAIL    tpot_gain                >= 30.0 %    21.1 %     (-8.9 pp)     16.2 .. 25.7 %",
    ]


def test_gate_that_was_not_measured_has_no_table(shown: list[str]) -> None:
    assert "tests/test_code.py::test_code[eagle3]" not in shown


def test_json_has_the_verdicts(data: dict[str, Any]) -> None:
    assert [(gate["judgement"], len(gate["verdicts"])) for gate in data["gates"]] == [("FAIL", 4), ("ERROR", 0)]
    assert data["gates"][0]["verdicts"][0]["estimate"]["value"] == pytest.approx(0.211, abs=5e-4)


def test_json_has_the_figures_without_the_samples(data: dict[str, Any]) -> None:
    comparison = data["comparisons"]["eagle3/chat"]
    assert comparison["summary"]["speedup"] == pytest.approx(1.27, abs=5e-3)
    assert comparison["summary"]["acceptance"]["drafts"] == 404
    assert "runs" not in comparison


def test_session_without_gates_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = json.loads(SAVED.read_text(encoding="utf-8")) | {"gates": [], "comparisons": {}}
    (tmp_path / "results.json").write_text(json.dumps(saved), encoding="utf-8")
    for named in (tmp_path / "results.json", tmp_path):
        assert main(["show", str(named)]) == 0
        assert capsys.readouterr().out == "no gate was judged\n"


def test_result_folder_of_the_last_run_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show"]) == 2
    assert ".specdec/results.json: cannot be read: No such file" in capsys.readouterr().err
