"""The Markdown report: misses first, the rest folded, and never more than its host takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specdec.core.results import GateOutcome, GateRecord, ResultDocument
from pytest_specdec.reporting.markdown import LIMIT_BYTES, markdown, verdict_sentence
from pytest_specdec.reporting.result_file import read_result

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


@pytest.fixture(scope="module")
def saved() -> ResultDocument:
    return read_result(SAVED)


def gate(outcome: GateOutcome, nodeid: str = "t.py::test_x", message: str = "") -> GateRecord:
    return GateRecord(nodeid, "a", outcome, message=message)


def document(*gates: GateRecord) -> ResultDocument:
    return ResultDocument(created_unix_s=1.8e9, environment={}, comparisons={}, gates=gates)


def test_what_blocks_comes_first_and_the_rest_is_folded(saved: ResultDocument) -> None:
    missed = saved.gates[0]
    met = replace(missed, nodeid="t.py::test_met", outcome="passed", verdicts=missed.verdicts[2:3], message="")
    text = markdown(replace(saved, gates=(met, missed)))
    assert text.startswith("## Speculative decoding: 1 of 2 gates missed, 1 met\n")
    assert text.index("### FAIL: ") < text.index("<details><summary>ok: ")


def test_missed_gate_has_its_table(saved: ResultDocument) -> None:
    assert "  FAIL    tpot_gain                >= 30.0 %    21.1 %     (-8.9 pp)     16.2 .. 25.7 %\n" in markdown(
        saved
    )


def test_session_without_gates_says_so() -> None:
    assert markdown(document()).startswith("## Speculative decoding: no gate was judged\n")


def test_what_does_not_fit_is_counted(saved: ResultDocument) -> None:
    many = replace(saved, gates=tuple(replace(saved.gates[0], nodeid=f"t.py::test_{n}") for n in range(60)))
    text = markdown(many)
    assert len(text.encode()) <= LIMIT_BYTES
    shown = text.count("### FAIL: ")
    assert 0 < shown < 60
    assert f"The tables of {60 - shown} more are left out" in text


@pytest.mark.parametrize("limit_bytes", [100, 400, 2000])
def test_limit_holds_whatever_it_is(saved: ResultDocument, limit_bytes: int) -> None:
    assert len(markdown(saved, limit_bytes=limit_bytes).encode()) <= limit_bytes


def test_text_of_others_is_never_taken_for_markup() -> None:
    text = markdown(document(gate("error", "t.py::test_<b>_`x`|", "```\n# heading\n<script>")))
    assert "````text\n```\n# heading" in text
    assert "### ERROR: <code>t.py::test&#95;&#60;b&#62;&#95;&#96;x&#96;&#124;</code>" in text


def test_sentence_needs_no_colour() -> None:
    assert (
        verdict_sentence([gate("error"), gate("error"), gate("skipped")])
        == "2 of 3 gates could not be measured, 1 not judged"
    )
