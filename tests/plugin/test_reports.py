"""Reports that pytest writes: which files there are after a run, and what CI reads of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = Path(__file__).parents[1] / "data" / "junit" / "xunit2.xsd"


def test_reports_that_were_asked_for_are_written_and_named(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    pytest.importorskip("matplotlib.backends.backend_svg")
    pytest.importorskip("jinja2")
    write_config()
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest(
        "--specdec-config=fake.json", "--specdec-report=html", "--specdec-report=md:out/summary.md"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["report: .specdec/report.html", "report: out/summary.md"])
    assert (pytester.path / ".specdec" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "1 of 1 gate met" in (pytester.path / "out" / "summary.md").read_text()


def test_job_summary_is_appended_to_and_keeps_secrets(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = pytester.path / "summary.md"
    summary.write_text("# Build\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("SOME_TOKEN", "abcdefghij")
    write_config(fake={"specdec": {"exit_at_start": {"code": 1, "message": "ValueError: abcdefghij is no token"}}})
    write_gate("tpot_gain=0.1")
    pytester.runpytest("--specdec-config=fake.json").assert_outcomes(errors=1)
    text = summary.read_text()
    assert text.startswith("# Build\n\n## Speculative decoding: 1 of 1 gate could not be measured\n")
    assert "is no token" in text
    assert "abcdefghij" not in text


def test_job_summary_can_be_left_alone(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    write_config(fake={"specdec": {"exit_at_start": {"code": 1, "message": "no"}}})
    write_gate("tpot_gain=0.1")
    pytester.runpytest("--specdec-config=fake.json", "--specdec-no-job-summary").assert_outcomes(errors=1)
    assert not (pytester.path / "summary.md").exists()


def test_report_that_does_not_exist_is_refused_before_anything_starts(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-report=pdf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--specdec-report: 'pdf' is no report*", "*html and md*"])


def test_page_without_what_it_needs_is_refused_with_what_to_install(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "matplotlib" else found(name, package),
    )
    write_config()
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-report=html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the html report needs matplotlib*", "*pip install 'pytest-specdec?report?'*"])


def test_report_that_cannot_be_written_fails_the_run(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-report=md:fake.json/report.md")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: the report could not be written: *"])


@pytest.fixture
def junit(pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]) -> ET.Element:
    """JUnit's file of a run with a gate that is missed."""
    write_config()
    write_gate("tpot_gain=0.9, min_acceptance_length=1.5")
    pytester.runpytest("--specdec-config=fake.json", "--junitxml=junit.xml").assert_outcomes(failed=1)
    return ET.parse(pytester.path / "junit.xml").getroot()  # noqa: S314 - pytest has just written it


def test_junit_has_the_verdict_in_one_line_and_the_table(junit: ET.Element) -> None:
    failure = junit.find(".//failure")
    assert failure is not None
    message = failure.get("message", "")
    assert "1 of 2 objectives missed: tpot_gain" in message
    assert "\n" not in message
    assert ">= 90.0 %" in (failure.text or "")


def test_junit_has_every_figure_as_a_property(junit: ET.Element) -> None:
    values: dict[str, Any] = {one.get("name", ""): one.get("value") for one in junit.iter("property")}
    assert values["specdec.tpot_gain.verdict"] == "FAIL"
    assert float(values["specdec.tpot_gain.low"]) < float(values["specdec.tpot_gain"]) < 0.9


def test_junit_is_as_its_schema_says(junit: ET.Element) -> None:
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
    schema.assertValid(etree.fromstring(ET.tostring(junit)))
