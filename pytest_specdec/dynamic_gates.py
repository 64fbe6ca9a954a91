"""``--specdec-dynamic`` in pytest: a config that is derived when its first test needs it. Registered only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import ConfigError, SpecDecError
from pytest_specdec.core.sweep import swept_field
from pytest_specdec.dynamic import Derived, Family, derive, families, written
from pytest_specdec.gate_records import config_id, relative
from pytest_specdec.gates import CouldNotMeasure
from pytest_specdec.mark_merging import load_layers
from pytest_specdec.marker import measures
from pytest_specdec.screen import width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.results import GateRecord
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.gates import Gates


class DynamicGates:
    """Adds a config for each family of configs, and finds its schedule.

    Raises:
        pytest.UsageError: A config states no K, or its file is there already or cannot be written.
    """

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.session = gates.session
        try:
            found = families(gates.configs, replace=gates.options.replace)
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
        self.families: dict[str, Family] = {family.id: family for family in found}
        self.derived: dict[str, Derived] = {}
        self.unwritten: dict[str, str] = {}
        """Why there is a schedule and no config."""
        placeholders = [family.placeholder for family in found]
        gates.configs = self.session.configs = (*gates.configs, *placeholders)

    @pytest.hookimpl(trylast=True)  # behind the gates', which take every config of a test for one that can start
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Refuse, before any server starts, a run that would measure no load twice."""
        for name in self.families:
            self.session.soon.pop(name, None)
        if session.items and not any(self._sweep(item, name) for item in session.items for name in self.families):
            raise pytest.UsageError(
                "--specdec-dynamic finds the K of every load, and no selected test measures several: "
                "give one a list, such as spec_load(concurrency=[1, 8, 32])"
            )

    def config(self, name: str) -> SpecConfig:
        """The config of a test; the dynamic one is derived when it is first asked for."""
        if name in self.families and name not in self.derived:
            try:
                self.derived[name] = self._derive(self.families[name])
            except SpecDecError as error:
                raise CouldNotMeasure(str(error), pytrace=False) from None
            if not self.derived[name].obstacle:
                try:
                    self.session.replace_config(written(self.session, self.derived[name]))
                except ConfigError as error:  # the schedule is found nevertheless, and shown
                    self.unwritten[name] = str(error)
        if name in self.unwritten:
            raise CouldNotMeasure(self.unwritten[name], pytrace=False)
        if name in self.derived and self.derived[name].obstacle:
            pytest.skip(f"no schedule: {self.derived[name].obstacle}")
        return self.session.config(name)

    def _derive(self, family: Family) -> Derived:
        sweeps = (self._sweep(item, family.id) for item in self.gates.selected)
        loads, folder = next(sweep for sweep in sweeps if sweep is not None)
        self.session.progress.phase(f"{family.id}: measuring K = {', '.join(map(str, family.candidates))}")
        return derive(self.session, family, loads, test_dir=folder)

    def _sweep(self, item: pytest.Item, name: str) -> tuple[Sequence[LoadSpec], Path] | None:
        """The loads of a test that sweeps concurrency for this config, and its folder."""
        if not isinstance(item, pytest.Function) or not measures(item) or config_id(item) != name:
            return None
        try:
            loads = self.session.resolve_loads(self.families[name].source, *load_layers(item))
        except SpecDecError:  # said where the test itself is measured
            return None
        sweeps = len(loads) > 1 and swept_field(loads) == "concurrency"
        return (loads, item.path.parent) if sweeps else None

    def _measured(self, gates: Sequence[GateRecord]) -> list[Comparison]:
        """Every load at which gates judged a config."""
        known = self.session.comparisons
        keys = dict.fromkeys(key for gate in gates for key in (gate.points or (gate.comparison,)))
        return [known[key] for key in keys if key in known]

    @pytest.hookimpl(trylast=True)  # behind the verdicts
    def pytest_terminal_summary(self) -> None:
        """The table of gains, the schedule, and whether to use it."""
        from pytest_specdec.core.schedule_worth import better_fixed
        from pytest_specdec.reporting.schedule_lines import gain_table, recommendation, schedule_text

        for name, derived in self.derived.items():
            lines = gain_table(derived.points, derived.schedule, width=width_of(self.gates.config))
            if derived.obstacle:
                lines.append(derived.obstacle)
            else:
                gates = [gate for gate in self.session.gates.values() if gate.config_id == name]
                path = relative(derived.family.path)
                why = self.unwritten.get(name)
                lines += [
                    f"num_speculative_tokens_per_batch_size: {schedule_text(derived.schedule)}",
                    f"not gated: {why}" if why else f"written to {path}",
                    *filter(None, [derived.added]),
                    recommendation(path, gates, better_fixed(self._measured(gates), derived.fixed)),
                ]
            self.gates.show(f"dynamic speculation: {derived.family.source.id}", lines)
