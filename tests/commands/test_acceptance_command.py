"""``pytest-specdec acceptance``: known figures, or exit code 2 with the reason and no figure at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.cli import main

METRICS = Path(__file__).parents[1] / "data" / "metrics"
NGRAM = (str(METRICS / "ngram_before.txt"), str(METRICS / "ngram_after.txt"))
DATA_PARALLEL = str(METRICS / "data_parallel.txt")
BASELINE = str(METRICS / "baseline.txt")


def figures(capsys: pytest.CaptureFixture[str], *scrapes: str) -> dict[str, Any]:
    assert main(["acceptance", *scrapes, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_difference_of_two_scrapes(capsys: pytest.CaptureFixture[str]) -> None:
    data = figures(capsys, *NGRAM)
    assert (data["drafts"], data["draft_tokens"], data["accepted_tokens"]) == (133, 512, 290)
    assert data["acceptance_length"] == pytest.approx(3.1805, abs=5e-5)
    assert data["acceptance_rate"] == pytest.approx(0.5664, abs=5e-5)
    assert data["per_position"] == pytest.approx([0.827, 0.526, 0.451, 0.376], abs=5e-4)
    assert data["conditional"] == pytest.approx([0.827, 0.636, 0.857, 0.833], abs=5e-4)


def test_tokens_per_step_and_coverage_where_the_server_counts_steps(capsys: pytest.CaptureFixture[str]) -> None:
    data = figures(capsys, *NGRAM)
    assert data["decode_steps"] == 254
    assert data["draft_coverage"] == pytest.approx(0.524, abs=5e-4)
    assert data["tokens_per_step"] == pytest.approx(2.114, abs=5e-4)


def test_one_scrape_counts_from_the_start_of_all_engines(capsys: pytest.CaptureFixture[str]) -> None:
    data = figures(capsys, DATA_PARALLEL)
    assert data["acceptance_length"] == pytest.approx(2.4444, abs=5e-5)
    assert data["per_position"] == pytest.approx([0.8363, 0.6082], abs=5e-5)
    assert data["tokens_per_step"] is None


def test_counters_without_drafts_are_undefined_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    data = figures(capsys, NGRAM[0])
    assert data["drafts"] == 0
    assert [data[key] for key in ("acceptance_length", "acceptance_rate", "per_position", "conditional")] == [None] * 4


def test_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acceptance", *NGRAM]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "acceptance length   3.180   (bonus token included, at most 5)",
        "acceptance rate     0.566   (290 of 512 draft tokens)",
        "drafts              133",
        "draft position      0      1      2      3",
        "  joint             0.827  0.526  0.451  0.376   of all drafts",
        "  conditional       0.827  0.636  0.857  0.833   of the drafts accepted up to the one before",
        "decode steps        254",
        "draft coverage      0.524   (share of the steps that verify a draft)",
        "tokens per step     2.114",
        "Many steps have no draft: what speculation yields is tokens per step, not the acceptance length.",
    ]


def test_table_without_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acceptance", NGRAM[0]]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "acceptance length   undefined   (bonus token included, at most 5)",
        "acceptance rate     undefined   (0 of 0 draft tokens)",
        "drafts              0",
        "No draft was made, so acceptance is undefined.",
    ]


def changed(tmp_path: Path, name: str, **replacements: str) -> str:
    text = (METRICS / name).read_text(encoding="utf-8")
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(capsys: pytest.CaptureFixture[str], *scrapes: str) -> str:
    assert main(["acceptance", *scrapes, "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_plain_server_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "this server runs without speculative decoding" in refusal(capsys, BASELINE)


def test_swapped_scrapes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "went down" in refusal(capsys, *reversed(NGRAM))


def test_restart_that_outgrew_the_old_counters_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    restarted = changed(
        tmp_path,
        "ngram_after.txt",
        **{"process_start_time_seconds 1.79597259837e+09": "process_start_time_seconds 1.79597260001e+09"},
    )
    assert "two server processes" in refusal(capsys, NGRAM[0], restarted)


def test_contradicting_counters_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = changed(tmp_path, "data_parallel.txt", **{"422.0": "421.0"})
    assert "adds up to 741, but 740 tokens were accepted" in refusal(capsys, cut)


def test_scrape_of_another_program_is_refused_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "node_exporter.txt"
    other.write_text("node_load1 0.5\n", encoding="utf-8")
    error = refusal(capsys, NGRAM[0], str(other))
    assert error.startswith(f"pytest-specdec acceptance: {other}: no line starts with 'vllm:'")
    assert "--disable-log-stats" in error


def test_missing_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "No such file" in refusal(capsys, str(tmp_path / "nothing.txt"))


def test_server_that_does_not_answer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "http://127.0.0.1:9: did not answer" in refusal(capsys, "http://127.0.0.1:9")
