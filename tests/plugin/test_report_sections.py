"""``pytest_specdec_report_sections``: one hook for the terminal, the Markdown, the page and the result file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.reporting.result_file import read_result
from tests.plugin.pretended import pretend_measured

if TYPE_CHECKING:
    from collections.abc import Callable

COSTS = """
from pytest_specdec import ReportSection

def pytest_specdec_report_sections(document):
    rows = [(gate.nodeid, gate.judgement) for gate in document.gates]
    return [ReportSection("Costs", ["per million tokens"], [("test", "verdict"), *rows])]
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., pytest.RunResult]:
    pretend_measured(monkeypatch)
    write_config()
    write_gate("tpot_gain=0.1")

    def run(*arguments: str, **plugins: str) -> pytest.RunResult:
        for name, source in plugins.items():
            (pytester.path / f"{name}.py").write_text(source)
        pytester.syspathinsert()
        names = (word for name in plugins if name != "conftest" for word in ("-p", name))
        return pytester.runpytest("--specdec-config=fake.json", *names, *arguments)

    return run


def test_a_section_is_in_every_report(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    pytest.importorskip("matplotlib.backends.backend_svg")
    pytest.importorskip("jinja2")
    result = run("--specdec-report=html", "--specdec-report=md", conftest=COSTS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*= Costs =*",
            "per million tokens",
            "test * verdict",
            "test_gate.py::test_gate?fake? * ok",
            "report: .specdec/report.html",
        ]
    )
    assert "<h2>Costs</h2>" in (pytester.path / ".specdec" / "report.html").read_text()
    assert "### Costs" in (pytester.path / ".specdec" / "report.md").read_text()
    (section,) = read_result(pytester.path / ".specdec" / "results.json").sections
    assert section.table[1] == ("test_gate.py::test_gate[fake]", "ok")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import pytest; pytest.skip('not today')", "Skipped: not today"),
        ("return ['text']", "TypeError: pytest_specdec_report_sections must return ReportSections, not 'text'"),
        ("return 7", "TypeError: 'int' object is not iterable"),
        ("return [ReportSection('')]", "ValueError: title must say something"),
        ("return [ReportSection('A', svg='<svg')]", "ValueError: 'A': its svg is no XML: unclosed token*"),
        ("return [ReportSection('A', svg='<svg/>')]", "ValueError: 'A': its svg has the root 'svg'*"),
    ],
)
def test_a_plugin_that_fails_costs_one_line_and_nothing_else(
    body: str, said: str, run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    broken = f"from pytest_specdec import ReportSection\ndef pytest_specdec_report_sections():\n    {body}\n"
    result = run("--specdec-report=md", broken_one=broken, conftest=COSTS)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    errors = [line for line in result.stdout.lines if line.startswith("ERROR")]
    assert len(errors) == 1
    result.stdout.fnmatch_lines([f"ERROR: broken_one adds nothing to the report: {said}", "*= Costs =*"])
    assert "### Costs" in (pytester.path / ".specdec" / "report.md").read_text()
    assert len(read_result(pytester.path / ".specdec" / "results.json").sections) == 1


def test_a_failing_conftest_is_named_by_its_path(run: Callable[..., pytest.RunResult]) -> None:
    result = run(conftest="def pytest_specdec_report_sections():\n    1 / 0\n")
    result.stdout.fnmatch_lines(["ERROR: conftest.py adds nothing to the report: ZeroDivisionError: *"])


def test_nothing_to_add_and_a_section_without_a_list_are_fine(run: Callable[..., pytest.RunResult]) -> None:
    one = COSTS.replace("[ReportSection", "ReportSection").replace("*rows])]", "*rows])")
    result = run(conftest=one, silent="def pytest_specdec_report_sections():\n    return None\n")
    assert [line for line in result.stdout.lines if line.startswith("ERROR")] == []
    result.stdout.fnmatch_lines(["*= Costs =*"])


def test_titles_move_no_cursor(run: Callable[..., pytest.RunResult]) -> None:
    hostile = COSTS.replace('"Costs"', '"Co\\x1b[2Jsts"')
    result = run(conftest=hostile)
    result.stdout.fnmatch_lines(["*= Co?x1b[[]2Jsts =*"])
    assert "\x1b" not in result.stdout.str()
