"""The hooks that judge: registered for the session when there is a config (or when gates are required).

A test is an ERROR when its conditions could not be measured (in the fixture, during set-up), and FAILED when they were and an
objective was missed (after its body).
"""

from __future__ import annotations

import functools
import platform
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr

from pytest_specdec import __version__
from pytest_specdec.adding import (
    REPLACED,
    changed_command,
    last_word,
    launch_elsewhere,
    launches_elsewhere,
    notes_of,
    sections_of,
)
from pytest_specdec.core.errors import ConfigError, Finding, SpecDecError
from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.masking import masked_argv
from pytest_specdec.gate_records import config_id, properties_of, record_of, relative, table_of
from pytest_specdec.handed import SpecComparison, SpecServers
from pytest_specdec.judging import Judged
from pytest_specdec.load.late_interrupts import TERMINATED, LateInterrupts, Terminations
from pytest_specdec.mark_merging import load_layers, patterns_elsewhere, requirements_for
from pytest_specdec.marker import SLO_MARK, is_gate
from pytest_specdec.progress import SilentProgress, TerminalProgress
from pytest_specdec.reporting.layout import fitted, printable
from pytest_specdec.screen import reporter_of, width_of
from pytest_specdec.session import SpecSession
from pytest_specdec.settings import refuse_foreign_traffic
from pytest_specdec.unjudged import why_refused

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from _pytest.outcomes import Failed

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.results import GateOutcome
    from pytest_specdec.lossless_probe import LosslessProbe
    from pytest_specdec.serving.process import Server
    from pytest_specdec.settings import Options

if not TYPE_CHECKING:
    # For the type checker it comes from where pytest defines it, which is no public name.
    Failed = pytest.fail.Exception

JUDGED = pytest.StashKey[Judged]()
ATTEMPTS = pytest.StashKey[int]()


class CouldNotMeasure(Failed):
    """There is no number to judge. Raised in set-up, so pytest shows an ERROR."""


class SloViolation(Failed):
    """An objective was measured and missed. Its message is one line; the table is a section of the report."""


# pytest's one-line summary shows a failure's class with its module; the module would only hide the message.
CouldNotMeasure.__module__ = SloViolation.__module__ = "builtins"


class Gates:
    """One per pytest session, in every process of it."""

    def __init__(
        self, config: pytest.Config, options: Options, configs: Sequence[SpecConfig], findings: Sequence[Finding]
    ) -> None:
        self.config = config
        self.options = options
        self.configs = configs
        quiet = hasattr(config, "workerinput") or config.get_verbosity() < -1
        self.session = SpecSession(
            options,
            configs,
            findings,
            SilentProgress() if quiet else TerminalProgress(config),
            change_command=functools.partial(changed_command, config),
            measured=lambda comparison: config.hook.pytest_specdec_measured(config=config, comparison=comparison),
            notes_of=lambda comparison: notes_of(config, comparison),
            environment={
                "pytest_specdec": __version__,
                "pytest": pytest.__version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "argv": shlex.join(masked_argv(map(str, config.invocation_params.args))),
            },
        )
        if launches_elsewhere(config):
            self.session.elsewhere = functools.partial(launch_elsewhere, config)
        self.terminations = Terminations()
        self.selected: list[pytest.Item] = []
        self.refusal: str | None = None
        """Why the run fails although no test did."""
        self.save_error: SpecDecError | None = None
        self.close_error: SpecDecError | None = None
        self.section_troubles: list[str] = []
        """Of other plugins that failed to add to the report."""
        self.replaced: list[str] = []
        """Whose verdicts another plugin has replaced."""
        self.skipped: dict[str, None] = {}
        """Why gates were skipped; each reason once."""

    @classmethod
    def opened(cls, config: pytest.Config, options: Options) -> Gates:
        """Read the configs.

        Raises:
            pytest.UsageError: Any of them is wrong; all errors at once.
        """
        from pytest_specdec.serving.preflight import checked_configs

        elsewhere = options.attached is not None or launches_elsewhere(config)
        try:
            configs, findings = (
                checked_configs(options.configs, default_model=options.model, elsewhere=elsewhere)
                if options.configs
                else ([], [])
            )
        except ConfigError as error:
            source = "" if options.configs_from.startswith("--") else f" (from {options.configs_from})"
            raise pytest.UsageError(f"speculative config{source}:\n{error}") from None
        refuse_foreign_traffic(options, configs)
        if options.attached and len(configs) > 1:
            raise pytest.UsageError(
                f"--specdec-attach: the speculating server has one config, and {len(configs)} were given"
            )
        return cls(config, options, configs, findings)

    # -- before tests run

    def pytest_report_header(self) -> list[str]:
        """Config, target and result folder."""
        from pytest_specdec.reporting.terminal import header_lines

        lines = header_lines(self.configs, self.session.findings, self.options.directory, self.session.placements())
        return [piece for line in lines for piece in self.shown(line)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember which tests will run, so that servers go when their last test is over, and what of the servers is judged."""
        self.selected = list(session.items)
        marks = (mark for item in session.items for mark in item.iter_markers(SLO_MARK))
        self.session.judged = frozenset(name for mark in marks for name in mark.kwargs)
        needed = {config_id(item) for item in session.items}
        self.session.soon = {config.id: config for config in self.configs if config.id in needed}

    def show(self, title: str, lines: list[str]) -> None:
        """A section of the terminal's report, without secrets."""
        terminal = reporter_of(self.config)
        if terminal is not None:
            terminal.section(printable(self._masked(title)))
            for line in lines:
                for piece in self.shown(line):
                    terminal.line(piece)

    def show_trouble(self, text: str) -> None:
        """An error in the terminal's report, without secrets; the word says it as well as the colour."""
        terminal = reporter_of(self.config)
        if terminal is not None:
            for line in f"ERROR: {text}".splitlines():
                for piece in self.shown(line):
                    terminal.line(piece, red=True, bold=True)

    def shown(self, line: str) -> list[str]:
        """A line as it may be shown: without secrets and control characters, within the terminal's columns."""
        return fitted([self._masked(line)], width_of(self.config))

    def _masked(self, text: str) -> str:
        return masked_text(text, self.session.secrets)

    # -- measuring, in set-up

    def measure(self, item: pytest.Function, config: SpecConfig) -> SpecComparison:
        """Measure and judge one test's conditions; errors fail its set-up."""
        attempt = item.stash[ATTEMPTS] = item.stash.get(ATTEMPTS, 0) + 1
        if JUDGED in item.stash:
            del item.stash[JUDGED]
        point, layers = load_layers(item)
        requirements = requirements_for(item, config.id)
        elsewhere = patterns_elsewhere(item, config.id)
        if elsewhere and not requirements:
            pytest.skip(
                f"no objective is for config {config.id!r}: those of this test are for configs={', '.join(map(repr, elsewhere))}"
            )
        try:
            judged = self.session.judge(
                config,
                self.session.resolve_loads(config, point, layers),
                requirements,
                test_dir=item.path.parent,
                attempt=attempt,
            )
            own = judged.verdicts
            judged = last_word(item, judged)
        except SpecDecError as error:
            raise CouldNotMeasure(self._masked(str(error)), pytrace=False) from None
        if judged.verdicts != own:
            self.replaced.append(f"{item.nodeid}: {REPLACED}")
        item.stash[JUDGED] = judged
        item.user_properties[:] = [p for p in item.user_properties if not str(p[0]).startswith("specdec.")]
        item.user_properties += properties_of(judged)
        self.config.hook.pytest_specdec_verdict(item=item, verdicts=judged.verdicts)
        return SpecComparison(config, judged.comparison, judged.verdicts, tuple(judged.points.values()))

    def serve(self, config: SpecConfig) -> SpecServers:
        """Both servers, up."""
        baseline, specdec = self._both(config)
        return SpecServers(baseline.base_url, specdec.base_url, baseline.served_name, specdec.served_name)

    def probe(self, config: SpecConfig) -> LosslessProbe:
        """What ``assert_lossless`` hands to tests."""
        from pytest_specdec.lossless_probe import probe_of

        try:
            return probe_of(config, lambda: self._both(config))
        except SpecDecError as error:
            raise CouldNotMeasure(self._masked(str(error)), pytrace=False) from None

    def _both(self, config: SpecConfig) -> tuple[Server, Server]:
        try:
            servers = self.session.servers(config)
        except SpecDecError as error:
            raise CouldNotMeasure(self._masked(str(error)), pytrace=False) from None
        finally:
            self.session.progress.close()
        return servers["baseline"], servers["specdec"]

    # -- judging, after the body

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail the test when its body passed and an objective did not."""
        result = yield
        judged = item.stash.get(JUDGED, None)
        if judged is not None and self._missed(judged):
            from pytest_specdec.reporting.terminal import headline

            raise SloViolation(headline(judged.verdicts), pytrace=False)
        return result

    def _missed(self, judged: Judged) -> bool:
        bad = {"FAIL"} | ({"unsure"} if self.options.unsure == "fail" else set())
        return any(verdict.outcome in bad for verdict in judged.verdicts)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: after pytest has turned a miss into an expected one
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the table into the failure, and the gate's record on the report."""
        report = yield
        if call.excinfo and call.excinfo.errisinstance(CouldNotMeasure) and report.skipped:
            # pytest takes what happens in set-up for the expected failure, too; but nothing was measured.
            report.outcome = "failed"
            del report.wasxfail
        gate = isinstance(item, pytest.Function) and is_gate(item)
        judged = item.stash.get(JUDGED, None)
        if report.when == "setup" and report.skipped and gate:
            report.specdec_skipped = _first_line(call)  # type: ignore[attr-defined] # as below
        if report.when == "setup" and report.failed and gate:
            report.specdec = record_of(item, None, "error", _first_line(call), self.session).to_dict()  # type: ignore[attr-defined] # pytest carries extra attributes across xdist
        elif report.when == "call" and judged is not None:
            outcome: GateOutcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            record = record_of(item, judged, outcome, _first_line(call), self.session)
            if gate:
                report.specdec = record.to_dict()  # type: ignore[attr-defined] # as above
            if report.failed and isinstance(report.longrepr, ExceptionRepr):
                report.longrepr.addsection(
                    "speculative decoding",
                    printable(self._masked("\n".join(table_of(item, record, judged, self.session)))),
                    "-",
                )
        return report

    # -- records

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the gates' records; with xdist this happens in the controller."""
        if reason := getattr(report, "specdec_skipped", None):
            self.skipped[reason] = None
        record = getattr(report, "specdec", None)
        if record is not None:
            from pytest_specdec.core.results import GateRecord

            self.session.gates[report.nodeid] = GateRecord.from_dict(record)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End a config's server after its last test."""
        if item in self.selected:
            self.selected.remove(item)
        done = config_id(item)
        if done and not any(config_id(other) == done for other in self.selected):
            self.session.release(self.session.config(done))

    # -- the end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """From the first test on SIGTERM is answered; in workers of xdist the controller answers it."""
        if not hasattr(self.config, "workerinput"):
            self.terminations.begin()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the servers, write the results, and refuse a green run in which no gate was judged."""
        self.terminations.finishing = True
        with LateInterrupts() as late:
            try:
                # Whoever sends SIGTERM sends SIGKILL soon, so the results come first then.
                with late.let_through():
                    if not self.terminations.arrived:
                        self.session.close()
            except KeyboardInterrupt:
                # A second Ctrl-C: whoever cannot wait shall not lose the results. The supervisors end the servers.
                session.exitstatus = pytest.ExitCode.INTERRUPTED
            except SpecDecError as error:  # the results are not to be lost for it
                self.close_error = error
            self._finish(session)
        if late.arrived:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        if self.terminations.arrived:
            session.exitstatus = TERMINATED
        self.terminations.end()

    def _finish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput"):
            self.config.workeroutput["specdec"] = self.session.export()  # type: ignore[attr-defined] # xdist's way home
            return
        document = self.session.document()
        if document.gates or document.comparisons:
            self.session.sections, self.section_troubles = sections_of(self.config, document)
        try:
            self.session.save()
        except SpecDecError as error:
            self.save_error = error
        self.refusal = why_refused(self, session)
        if session.exitstatus == pytest.ExitCode.OK and (self.refusal or self.save_error or self.close_error):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist measured."""
        exported = getattr(node, "workeroutput", {}).get("specdec")
        if exported:
            self.session.take_over(exported)

    def pytest_terminal_summary(self) -> None:
        """One row per gate, and where the results are. Never raises: pytest would lose its own summary."""
        try:
            self._summarise()
        except Exception as error:  # noqa: BLE001 - as above; the verdicts stand all the same
            self.show_trouble(f"the summary cannot be shown: {type(error).__name__}: {error}")

    def _summarise(self) -> None:
        from pytest_specdec.reporting.added_sections import section_lines
        from pytest_specdec.reporting.terminal import session_lines
        from pytest_specdec.serving.pool import kept_lines

        lines = session_lines(
            list(self.session.gates.values()),
            self.session.comparisons,
            thresholds=self.options.procedure.thresholds,
            verbose=self.config.get_verbosity() > 0,
            width=width_of(self.config),
        )
        lines += self.replaced
        lines += kept_lines(self.session.kept)
        if self.session.gates and self.save_error is None:
            lines.append(f"results: {relative(self.session.result_path)}")
        unwritten = self.save_error and f"the results could not be written: {self.save_error}"
        troubles = [
            trouble for trouble in (self.refusal, unwritten, self.close_error, *self.section_troubles) if trouble
        ]
        if not (lines or troubles):
            return
        self.show("speculative decoding", lines)
        for trouble in troubles:
            self.show_trouble(str(trouble))
        for section in self.session.sections:
            self.show(section.title, section_lines(section, width=width_of(self.config)))

    def pytest_unconfigure(self) -> None:
        """Last words: no server outlives pytest, whatever happened before."""
        self.session.close()


def _first_line(call: pytest.CallInfo[Any]) -> str:
    return str(call.excinfo.value).strip().splitlines()[0] if call.excinfo and str(call.excinfo.value).strip() else ""
