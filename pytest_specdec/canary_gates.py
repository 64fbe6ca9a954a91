"""Tests with ``spec_canary``: objectives judged on what a Prometheus has scraped from running servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.gates import CouldNotMeasure, SloViolation
from pytest_specdec.mark_merging import requirements_for
from pytest_specdec.screen import width_of
from pytest_specdec.serving.prometheus_api import PrometheusApi, matchers, window_seconds

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_specdec.core.live_window import LiveWindow
    from pytest_specdec.core.results import GateOutcome, GateRecord
    from pytest_specdec.core.verdict import Verdict
    from pytest_specdec.gates import Gates

CONFIG_ID = "canary"
"""What ``configs=`` in a mark is matched against, and how the gate is called in reports."""
_CONFIDENCE = 0.95
_WINDOW = "30m"


@dataclass(frozen=True)
class SpecCanary:
    """What ``spec_canary`` hands to a test: both arms' counters over the window, for asserts of your own."""

    window: LiveWindow
    verdicts: tuple[Verdict, ...]
    """The test's own objectives, already judged; a miss fails the test after its body."""
    notes: tuple[str, ...]
    """How the arms' traffic differs."""


JUDGED = pytest.StashKey[SpecCanary]()


class CanaryGates:
    """One per pytest session; the window is read once and shared by all tests."""

    def __init__(self, gates: Gates, api: PrometheusApi, baseline: str, specdec: str, window_s: float) -> None:
        self._gates = gates
        self._api = api
        self._selectors = (baseline, specdec)
        self._window_s = window_s
        self._window: LiveWindow | SpecDecError | None = None

    @classmethod
    def asked_for(cls, config: pytest.Config, gates: Gates) -> CanaryGates:
        """Read the options.

        Raises:
            pytest.UsageError: A selector is missing or none, or the window is no length of time.
        """
        given = {}
        for arm in ("baseline", "specdec"):
            option = f"--specdec-canary-{arm}"
            selector = config.getoption(f"specdec_canary_{arm}")
            if not selector:
                raise pytest.UsageError(
                    f"--specdec-prometheus needs {option}: the labels of the servers "
                    f"{'with' if arm == 'specdec' else 'without'} speculation, such as '{{version=\"{arm}\"}}'"
                )
            given[option] = selector
        window = config.getoption("specdec_canary_window") or _WINDOW
        for option, check, text in (
            *((option, matchers, selector) for option, selector in given.items()),
            ("--specdec-canary-window", window_seconds, window),
        ):
            try:
                check(text)
            except SpecDecError as error:
                raise pytest.UsageError(f"{option}: {error}") from None
        baseline, specdec = given.values()
        return cls(
            gates, PrometheusApi(config.getoption("specdec_prometheus")), baseline, specdec, window_seconds(window)
        )

    def judge(self, item: pytest.Function) -> SpecCanary:
        """Judge one test's objectives; errors fail its set-up."""
        from pytest_specdec.core.live_judging import judge_live, live_notes

        requirements = requirements_for(item, CONFIG_ID)
        confidence = self._gates.options.measure.get("confidence", _CONFIDENCE)
        try:
            window = self._read()
            verdicts = judge_live(window, requirements, confidence=confidence)
        except SpecDecError as error:
            raise CouldNotMeasure(str(error), pytrace=False) from None
        canary = item.stash[JUDGED] = SpecCanary(window, verdicts, live_notes(window))
        item.config.hook.pytest_specdec_verdict(item=item, verdicts=verdicts)
        return canary

    def _read(self) -> LiveWindow:
        if self._window is None:
            try:
                self._window = self._api.window(*self._selectors, self._window_s)
            except SpecDecError as error:
                self._window = error
        if isinstance(self._window, SpecDecError):
            raise self._window
        return self._window

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail the test when its body passed and an objective did not."""
        result = yield
        canary = item.stash.get(JUDGED, None)
        if canary is not None and self._missed(canary):
            from pytest_specdec.reporting.verdict_table import headline

            raise SloViolation(headline(canary.verdicts), pytrace=False)
        return result

    def _missed(self, canary: SpecCanary) -> bool:
        bad = {"FAIL"} | ({"unsure"} if self._gates.options.unsure == "fail" else set())
        return any(verdict.outcome in bad for verdict in canary.verdicts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The table as a section of the report, and the gate's record for the results."""
        report = yield
        canary = item.stash.get(JUDGED, None)
        if report.when != "call" or canary is None:
            return report
        report.sections.append(("live traffic", "\n".join(self._lines(canary))))
        outcome: GateOutcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
        if canary.verdicts:
            report.specdec = self._record(item, canary, outcome, call).to_dict()  # type: ignore[attr-defined] # pytest carries extra attributes
        return report

    def _record(
        self, item: pytest.Item, canary: SpecCanary, outcome: GateOutcome, call: pytest.CallInfo[Any]
    ) -> GateRecord:
        from pytest_specdec.core.results import GateRecord

        said = str(call.excinfo.value).splitlines()[:1] if call.excinfo else []
        return GateRecord(
            nodeid=item.nodeid, config_id=CONFIG_ID, outcome=outcome, verdicts=canary.verdicts, message="".join(said)
        )

    def _lines(self, canary: SpecCanary) -> list[str]:
        from pytest_specdec.reporting.live_lines import live_lines

        return live_lines(canary.window, canary.verdicts, canary.notes, width=width_of(self._gates.config))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The tables of tests that passed; pytest shows those of the others itself."""
        passed = (report for report in terminalreporter.getreports("passed") if report.when == "call")
        for report in passed:
            for title, text in report.sections:
                if title == "live traffic":
                    self._gates.show(f"{title}: {report.nodeid}", text.splitlines())
