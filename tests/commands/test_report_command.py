"""``pytest-specdec report``: the page and the Markdown of a saved session."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdec.cli import main

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


def test_both_reports_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    page, text = tmp_path / "new" / "r.html", tmp_path / "r.md"
    assert main(["report", str(SAVED), "--html", str(page), "--md", str(text)]) == 0
    assert capsys.readouterr().out == f"report: {page}\nreport: {text}\n"
    assert "</html>" in page.read_text(encoding="utf-8")
    assert text.read_text(encoding="utf-8").startswith("## Speculative decoding: ")


def test_report_without_a_kind_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(SAVED)]) == 2
    assert "Give --html PATH, --md PATH, or both." in capsys.readouterr().err


def test_path_that_cannot_be_written_is_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["report", str(SAVED), "--md", str(tmp_path / "file" / "r.md")]) == 2
