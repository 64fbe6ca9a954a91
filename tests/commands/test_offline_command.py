"""``pytest-specdec offline``: conditions are checked before anything starts, figures are those of the engine, everything is written."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.cli import main
from tests.serving.stand_in_vllm import make_stand_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # device locks of its own
    monkeypatch.setattr("tempfile.tempdir", None)
    path = tmp_path / "ngram.json"
    envelope = {
        "model": "./target",
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3},
        "command": [sys.executable, "-m", "vllm.entrypoints.openai.api_server"],
        "env": {"PYTHONPATH": str(make_stand_in(tmp_path / "packages"))},
    }
    (tmp_path / "target").mkdir()
    path.write_text(json.dumps(envelope), encoding="utf-8")
    return path


def test_the_figures_of_the_engine_are_printed_and_written(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offline", str(config), "--workload", "code", "--num-requests", "3", "--max-tokens", "5"]) == 0
    printed = capsys.readouterr().out
    assert "total output tokens 15   (3 requests, specdec)" in printed
    assert "acceptance length   1.900" in printed
    written = json.loads((config.parent / ".specdec" / "ngram" / "offline.json").read_text())
    assert (written["drafts"], written["draft_tokens"], written["accepted_tokens"]) == (20, 40, 18)
    assert written["per_position"] == [0.6, 0.3]
    assert [len(answer["token_ids"]) for answer in written["answers"]] == [5, 5, 5]


def test_json_is_what_is_written_without_the_answers(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offline", str(config), "--num-requests", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((config.parent / ".specdec" / "ngram" / "offline.json").read_text())
    del written["answers"]
    assert printed == written


def test_what_the_engine_is_not_asked_is_said(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offline", str(config), "--workload", "structured", "--num-requests", "2"]) == 0
    assert "note: 20 of 80 prompts ask for a form of the answer or offer tools" in capsys.readouterr().out


def test_the_baseline_has_tokens_and_no_acceptance(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offline", str(config), "--num-requests", "2", "--arm", "baseline"]) == 0
    assert "acceptance" not in capsys.readouterr().out
    assert (config.parent / ".specdec" / "ngram" / "offline-baseline.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-tokens", "0"], "--max-tokens=0: needs a whole number of at least 1"),
        (["--top-p", "2"], "--top-p=2.0: needs a number above 0"),
        (["--workload", "chatt"], "no workload is called 'chatt'"),
    ],
)
def test_bad_conditions_are_refused_before_the_start(
    config: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["offline", str(config), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (config.parent / ".specdec").exists()
