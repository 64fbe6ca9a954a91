"""The hooks that write reports when a session is over; registered only when one was asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import SpecDecError

if TYPE_CHECKING:
    from pytest_specdec.gates import Gates
    from pytest_specdec.reporting.report_files import ReportFile


class ReportHooks:
    """Writes what ``--specdec-report`` asks for, and the job summary."""

    def __init__(self, gates: Gates, reports: list[ReportFile], summary: Path | None) -> None:
        self.gates = gates
        self.reports = reports
        self.summary = summary
        self.lines: list[str] = []
        self.troubles: list[str] = []

    @classmethod
    def asked_for(cls, config: pytest.Config, gates: Gates) -> ReportHooks | None:
        """Read options and environment; None when nothing is to be written here.

        Raises:
            pytest.UsageError: A report that does not exist, or that needs what is not installed.
        """
        given = config.getoption("specdec_report") or config.getini("specdec_report")
        off = config.getoption("specdec_no_job_summary") or not config.getini("specdec_job_summary")
        summary = None if off else os.environ.get("GITHUB_STEP_SUMMARY")
        if hasattr(config, "workerinput") or not (given or summary):
            return None
        from pytest_specdec.reporting.report_files import wanted_report

        here = config.invocation_params.dir
        try:
            reports = [wanted_report(text, here=here, directory=gates.options.directory) for text in given]
        except SpecDecError as error:
            raise pytest.UsageError(f"--specdec-report: {error}") from None
        return cls(gates, reports, Path(summary) if summary else None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write, after the results; a report that was asked for and cannot be written fails the run."""
        document = self.gates.session.document()
        if not (document.gates or document.comparisons):
            return
        from pytest_specdec.gate_records import relative
        from pytest_specdec.reporting.report_files import append_summary, write_report

        secrets = self.gates.session.secrets
        for report in self.reports:
            try:
                write_report(document, report, secrets)
                self.lines.append(f"report: {relative(report.path)}")
            except SpecDecError as error:
                self.troubles.append(f"the report could not be written: {error}")
        if self.summary is not None:
            try:
                append_summary(document, self.summary, secrets)
            except SpecDecError as error:
                self.troubles.append(str(error))
        if self.troubles and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where they are."""
        for line in self.lines:
            terminalreporter.line(line)
        for trouble in self.troubles:
            self.gates.show_trouble(trouble)
