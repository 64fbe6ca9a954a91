"""The hooks of ``--specdec-save`` and ``--specdec-compare``; registered only when one of them was given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure, SpecDecError
from pytest_specdec.core.saved import Saved, pick
from pytest_specdec.gate_records import relative
from pytest_specdec.reporting.history_folder import NAME, runs_called, save_run
from pytest_specdec.screen import width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import StoredRun
    from pytest_specdec.gates import Gates


class HistoryHooks:
    """Finds what a run is compared with, and keeps the run for later ones.

    Args:
        gates: Of this session.
        folder: Of saved results.
        save_as: A name, or empty; None where this run is not saved.
        reference: What to compare with; None for nothing.
    """

    def __init__(self, gates: Gates, folder: Path, save_as: str | None, reference: Reference | None) -> None:
        self.gates = gates
        self.folder = folder
        self.save_as = save_as
        self.reference = reference
        self.lines: list[str] = []
        self.trouble = ""
        gates.session.is_saved = save_as is not None
        gates.session.saved_for = reference.saved_for if reference else None
        if save_as is not None:
            from pytest_specdec.revision import revision

            self._revision = revision(gates.config.rootpath, os.environ)

    @classmethod
    def asked_for(cls, config: pytest.Config, gates: Gates) -> HistoryHooks:
        """Read the options.

        Raises:
            pytest.UsageError: A name that cannot be one, or nothing is there to compare with.
        """
        here = config.invocation_params.dir
        folder = history_folder(config, gates.options.directory)
        save_as: str | None = config.getoption("specdec_save")
        if save_as is not None and (gates.options.self_test or gates.options.tune):
            raise pytest.UsageError("--specdec-save keeps what gates measured, and with this option none is run")
        if save_as and (not NAME.fullmatch(save_as) or (here / save_as).exists()):
            raise pytest.UsageError(
                f"--specdec-save: {save_as!r} is no name for a run: letters, digits, '.', '_' and '-', and no file or folder "
                "here. Without a name, put the option behind the tests' paths"
            )
        what: str | None = config.getoption("specdec_compare")
        try:
            reference = Reference(gates, *runs_called(what, folder, here=here)) if what else None
        except SpecDecError as error:
            if save_as is None or (what or "").endswith(".json"):
                raise pytest.UsageError(f"--specdec-compare: {error}") from None
            # The first run of all: it is measured and saved, and its own max_regression says that there was nothing before.
            reference = Reference(gates, str(folder) if what == "last" else f"{folder} ({what})", iter(()))
        return cls(gates, folder, save_as, reference)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Save, after the results; a result that was to be saved and cannot be fails the run."""
        document = self.gates.session.document()
        if hasattr(session.config, "workerinput") or not document.comparisons:
            return
        if self.reference is not None:
            self.lines += self.reference.lines(document.comparisons.values(), width=width_of(session.config))
        if self.save_as is not None:
            try:
                path = save_run(
                    document,
                    self.folder,
                    name=self.save_as,
                    revision=self._revision,
                    secrets=self.gates.session.secrets,
                )
                self.lines.append(f"saved: {relative(path)}")
            except SpecDecError as error:
                self.trouble = f"the result could not be saved: {error}"
        if self.trouble and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """What changed, and where the result was saved."""
        if self.lines:
            self.gates.show("speculative decoding: history", self.lines)
        if self.trouble:
            self.gates.show_trouble(self.trouble)


class Reference:
    """What this run is compared with, read as far as it is needed.

    Args:
        gates: Of this session.
        where: What the runs are, in words.
        runs: The newest first.
    """

    def __init__(self, gates: Gates, where: str, runs: Iterator[StoredRun]) -> None:
        self._session = gates.session
        self._where = where
        self._unread = runs
        self._read: list[StoredRun] = []

    def saved_for(self, now: Comparison) -> Saved:
        """The saved measurement under equal conditions.

        Raises:
            CannotMeasure: There is none.
            ResultFileError: A file of the folder is damaged.
        """
        try:
            return pick(now, self._runs(), model=self._session.config(now.config_id).model, where=self._where)
        except CannotMeasure as error:
            if not self._session.is_saved:
                raise
            raise CannotMeasure(
                error.what, remedy="This run is saved: the next one has something to compare with."
            ) from None

    def _runs(self) -> Iterator[StoredRun]:
        yield from self._read
        for run in self._unread:
            self._read.append(run)
            yield run

    def lines(self, comparisons: Iterable[Comparison], *, width: int) -> list[str]:
        """How everything that was measured compares."""
        from pytest_specdec.reporting.change_table import change_lines

        lines: list[str] = []
        for now in comparisons:
            try:
                lines += [*change_lines(now, self.saved_for(now), width=width), ""]
            except SpecDecError as error:
                lines += [f"not compared: {error.what}", ""]
        return lines


def history_folder(config: pytest.Config, directory: Path) -> Path:
    """Where saved results are: an option relative to where pytest is started, an ini value relative to its file."""
    if given := config.getoption("specdec_history"):
        return config.invocation_params.dir / str(given)
    home = config.inipath.parent if config.inipath else config.rootpath
    ini = str(config.getini("specdec_history"))
    return home / ini if ini else directory / "history"
