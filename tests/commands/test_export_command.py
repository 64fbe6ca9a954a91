"""``pytest-specdec export``: a saved session for github-action-benchmark and as OpenMetrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_specdec.cli import main
from pytest_specdec.core.results import ResultDocument
from pytest_specdec.exchange.github_benchmark import benchmark_entries
from pytest_specdec.exchange.openmetrics import openmetrics_text
from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


@pytest.fixture
def document() -> ResultDocument:
    return read_result(SAVED)


def samples(text: str) -> list[Sample]:
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # the library's
    return [sample for family in families for sample in family.samples]


def values(document: ResultDocument, label: str) -> dict[tuple[str, str], float]:
    """By metric name and one of its labels."""
    return {(one.name, one.labels.get(label, "")): one.value for one in samples(openmetrics_text(document))}


def test_openmetrics_has_the_figures_in_base_units(document: ResultDocument) -> None:
    found = values(document, "arm")
    (gate,) = (gate for gate in document.gates if gate.verdicts)
    gain = next(one for one in gate.verdicts if one.requirement.objective == "tpot_gain")
    ratio = 1 - found["specdec_tpot_seconds", "specdec"] / found["specdec_tpot_seconds", "baseline"]
    assert ratio == pytest.approx(gain.estimate.value)
    assert found["specdec_result_created_timestamp_seconds", ""] == document.created_unix_s
    outcomes = values(document, "outcome")
    assert {outcome for name, outcome in outcomes if name == "specdec_objective_outcome"} == {
        one.outcome for one in gate.verdicts
    }


def test_openmetrics_escapes_whatever_a_test_is_called(document: ResultDocument) -> None:
    data = json.loads(document.to_json())
    data["gates"][0]["nodeid"] = 'test_a.py::test["x\\y"\n]'
    text = openmetrics_text(ResultDocument.from_json(json.dumps(data)))
    gates = {sample.labels["gate"] for sample in samples(text) if "gate" in sample.labels}
    assert gates == {'test_a.py::test["x\\y"\n]'}


def test_each_file_for_github_has_one_direction(document: ResultDocument) -> None:
    bigger, smaller = (benchmark_entries(document, direction) for direction in ("higher", "lower"))
    names = [entry["name"] for entry in (*bigger, *smaller)]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.endswith(("TPOT", "TTFT p95"))] == [
        entry["name"] for entry in smaller if ".py::" not in entry["name"]
    ]
    judged = next(entry for entry in bigger if entry["name"].endswith(": tpot_gain"))
    assert judged["unit"] == "%"
    assert judged["value"] == pytest.approx(21.1, abs=0.1)
    assert judged["extra"] == "FAIL: required >= 30"
    assert judged["range"] == "16.21 .. 25.71"


def test_foreign_traffic_is_labelled_and_begins_series_of_its_own(document: ResultDocument) -> None:
    assert "specdec_foreign_traffic" not in openmetrics_text(document)
    shared = {key: replace(one, extra={"traffic": "foreign"}) for key, one in document.comparisons.items()}
    document = replace(document, comparisons=shared)
    labelled = [one.value for one in samples(openmetrics_text(document)) if one.name == "specdec_foreign_traffic"]
    assert labelled == [1.0] * len(shared)
    figures = [one["name"] for one in benchmark_entries(document, "higher") if ".py::" not in one["name"]]
    assert figures
    assert all(" (foreign traffic): " in name for name in figures)


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {kind: tmp_path / kind for kind in ("bigger-is-better", "smaller-is-better", "openmetrics")}
    arguments = [part for kind, path in paths.items() for part in (f"--{kind}", str(path))]
    assert main(["export", str(SAVED), *arguments]) == 0
    assert capsys.readouterr().out == "".join(f"export: {path}\n" for path in paths.values())
    entries: list[dict[str, Any]] = json.loads(paths["bigger-is-better"].read_text())
    assert all({"name", "unit", "value"} <= entry.keys() for entry in entries)
    assert paths["openmetrics"].read_text().endswith("# EOF\n")


def test_export_to_nowhere_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(SAVED)]) == 2
    assert "Give a PATH to one or more of --bigger-is-better" in capsys.readouterr().err
