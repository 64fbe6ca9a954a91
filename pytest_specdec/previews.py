"""``--specdec-plan``, ``--specdec-self-test``, ``--specdec-tune``: what runs in place of the tests. Registered only when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.core.self_test import self_test, self_test_lines
from pytest_specdec.gate_records import config_id, relative
from pytest_specdec.mark_merging import load_layers
from pytest_specdec.marker import measures
from pytest_specdec.placing import must_measure
from pytest_specdec.planning import Wanted, plan_lines
from pytest_specdec.workload_search import find_workload

if TYPE_CHECKING:
    from pytest_specdec.gates import Gates


class Previews:
    """Takes the place of the loop over tests."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.session = gates.session

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """No test runs; with ``--co``, and after errors at collection, pytest's own loop says so."""
        if session.config.getoption("collectonly") or session.testsfailed:
            return None
        if self.gates.options.plan:
            measured = must_measure(self.session.judged)
            lines = plan_lines(self._wanted(), self.session.earlier(), self.session.machine, measured=measured)
            self.gates.show("speculative decoding: plan", lines)
        elif self.gates.options.tune:
            self.gates.show("speculative decoding: number of speculative tokens (K)", self._tune(session))
        else:
            self.gates.show("speculative decoding: self-test", self._self_test(session))
        return True

    def _tune(self, session: pytest.Session) -> list[str]:
        from pytest_specdec.core.validity import verification_of
        from pytest_specdec.reporting.k_advice import advice_json, advice_lines
        from pytest_specdec.reporting.result_file import replace_file
        from pytest_specdec.tuning import probes_of, tune

        lines: list[str] = []
        distinct = self._distinct(session, "tune for")
        self.session.soon.clear()  # no test runs
        self.session.start_soon(probe for want in distinct for probe in probes_of(want.config))
        for place, want in enumerate(distinct, start=1):
            lines.append(f"{want.config.id}, workload {want.load.workload}, {want.load.describe()}")
            if verification_of(want.config.speculative_config) == "synthetic":
                lines.append("  acceptance is made up: what follows holds for a draft that is accepted so")
            try:
                tuning = tune(self.session, want.config, want.load, test_dir=want.folder)
                lines += advice_lines(tuning)
                path = self.gates.options.directory / want.config.id / f"k-advice-{place}.json"
                replace_file(path, advice_json(tuning) + "\n")
                lines.append(f"  written to {relative(path)}")
            except SpecDecError as error:
                lines += f"  could not be tuned: {error}".splitlines()
                session.testsfailed += 1
        return lines

    def _distinct(self, session: pytest.Session, use: str) -> list[Wanted]:
        """One for each config and load, in the order of the tests.

        Raises:
            pytest.UsageError: Tests were selected and none measures anything.
        """
        distinct = {(want.config.id, want.load): want for want in reversed(self._wanted())}
        if session.items and not distinct:
            raise pytest.UsageError(
                f"no selected test measures anything, so there is no load to {use}: select one that uses spec_comparison"
            )
        return list(reversed(distinct.values()))

    def _self_test(self, session: pytest.Session) -> list[str]:
        lines: list[str] = []
        for want in self._distinct(session, "try"):
            try:
                comparison = self.session.self_test(want.config, want.load, test_dir=want.folder)
                lines += self_test_lines(comparison, self_test(comparison))
            except SpecDecError as error:
                lines += f"{want.config.id}, workload {want.load.workload}: could not measure: {error}".splitlines()
                session.testsfailed += 1
        return lines

    def _wanted(self) -> list[Wanted]:
        wanted = []
        for item in self.gates.selected:
            if isinstance(item, pytest.Function) and measures(item):
                config = self.session.config(config_id(item))
                try:
                    loads = self.session.resolve_loads(config, *load_layers(item))
                    find_workload(
                        loads[0].workload, config=config, ini=self.gates.options.workloads, test_dir=item.path.parent
                    )
                except SpecDecError as error:
                    raise pytest.UsageError(f"{item.nodeid}: {error}") from None
                wanted += [Wanted(item.nodeid, config, load, item.path.parent) for load in loads]
        return wanted
