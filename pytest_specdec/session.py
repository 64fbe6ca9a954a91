"""One object per pytest session: it owns the servers, the measurements and the verdicts. It knows nothing of pytest."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import CannotMeasure, ConfigError, Finding, SpecDecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.course import WarmUpRecord
    from pytest_specdec.core.launched import Launched
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.report_section import ReportSection
    from pytest_specdec.core.results import GateRecord, ResultDocument
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.core.saved import SavedFor
    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.judging import Judged
    from pytest_specdec.launching import ServerSet
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.progress import Progress
    from pytest_specdec.rounds import Warmth
    from pytest_specdec.serving.command import LaunchPlan
    from pytest_specdec.serving.machine import Machine
    from pytest_specdec.serving.pool import KeptServer
    from pytest_specdec.serving.process import Server
    from pytest_specdec.settings import Options


@dataclass
class SpecSession:
    """Servers are started when the first test needs them and kept; measurements are shared by all tests that ask for them."""

    options: Options
    configs: Sequence[SpecConfig]
    findings: Sequence[Finding]
    progress: Progress
    change_command: Callable[[Arm, tuple[str, ...]], tuple[str, ...]]
    measured: Callable[[Comparison], None]
    notes_of: Callable[[Comparison], list[str]] = lambda _: []
    """What others say about a comparison."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions and command line, for the result document."""
    gates: dict[str, GateRecord] = field(default_factory=dict)
    _measurements: dict[str, Measurement] = field(default_factory=dict)
    _failures: dict[str, CannotMeasure] = field(default_factory=dict)
    _taken_over: dict[str, Comparison] = field(default_factory=dict)
    _checked: dict[str, list[Finding]] = field(default_factory=dict)
    _pool: ServerSet | None = None
    machine: Machine | None = None
    """What the servers run on; None for the one that pytest runs on."""
    elsewhere: Callable[[LaunchPlan], Launched | None] | None = None
    """Launches servers that are not on this machine."""
    soon: dict[str, SpecConfig] = field(default_factory=dict)
    """Configs by id whose servers later measurements need, so that they may start with the first ones."""
    judged: frozenset[str] = frozenset()
    """Names of the objectives of all tests that will run."""
    _warm: dict[Warmth, WarmUpRecord] = field(default_factory=dict)
    saved_for: SavedFor | None = None
    """Finds what ``max_regression`` is held against; None where nothing was given to compare with."""
    is_saved: bool = False
    """Whether what is measured will be kept for later runs."""
    sections: tuple[ReportSection, ...] = ()
    """What other plugins added to the reports."""
    kept: list[KeptServer] = field(default_factory=list)
    """Servers that outlive the run."""
    started_unix_s: float = field(default_factory=time.time)

    def config(self, config_id: str) -> SpecConfig:
        """The config of a test's ``spec_target``."""
        return next(config for config in self.configs if config.id == config_id)

    def replace_config(self, config: SpecConfig) -> None:
        """Put a config in the place of the one with its id, about which nothing is known any more."""
        self.configs = [config if known.id == config.id else known for known in self.configs]
        self._checked.pop(config.id, None)
        self._server_set.forget(config)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values that no report may show, wherever they turn up: of secret flags and variables, ours and the configs'."""
        from pytest_specdec.core.masked_text import secret_values
        from pytest_specdec.core.server_flags import words_of

        found = {
            *secret_values((), os.environ),
            *(self.options.attached.headers.values() if self.options.attached else ()),
        }
        for config in self.configs:
            words = (*(config.command or ()), *words_of(config.serve), *words_of(config.serve_specdec))
            found |= {*secret_values(words, config.env)}
        return tuple(sorted(found, key=len, reverse=True))

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """Everything measured so far."""
        own = {key: measurement.comparison() for key, measurement in self._measurements.items() if measurement.runs}
        return self._taken_over | own

    @property
    def result_path(self) -> Path:
        """Where the result document goes."""
        name = "self-test" if self.options.self_test else "tune" if self.options.tune else "results"
        return self.options.directory / f"{name}.json"

    def earlier(self) -> dict[str, Comparison]:
        """What the last run in this folder measured; empty when there is none that can be read."""
        from pytest_specdec.reporting.result_file import read_result

        try:
            return dict(read_result(self.result_path).comparisons)
        except SpecDecError:
            return {}

    def resolve_loads(
        self, config: SpecConfig, point: str | None, layers: Sequence[Mapping[str, Any]]
    ) -> tuple[LoadSpec, ...]:
        """A test's conditions: marks over the named load point over the config's ``measure`` over the ini file.

        More than one are a sweep, the lowest first.

        Raises:
            CannotMeasure: The config has no load point of that name.
        """
        from pytest_specdec.core.suggest import did_you_mean
        from pytest_specdec.core.sweep import loads_of

        below: list[Mapping[str, Any]] = [self.options.measure, config.measure.load_fields()]
        if point is not None:
            if point not in config.load:
                suggestion = did_you_mean(point, config.load)
                known = ", ".join(config.load) or "none"
                raise CannotMeasure(
                    f"spec_load(load={point!r}): {config.path.name} has no load point of that name"
                    + (f"; did you mean {suggestion!r}?" if suggestion else ""),
                    remedy=f"Its load points: {known}. Add one under `load:`.",
                )
            below.append(config.load[point].load_fields())
        return loads_of([*below, *layers])

    def judge(
        self,
        config: SpecConfig,
        loads: Sequence[LoadSpec],
        requirements: Sequence[Requirement],
        *,
        test_dir: Path,
        attempt: int = 1,
    ) -> Judged:
        """See :func:`pytest_specdec.judging.judge_loads`."""
        from pytest_specdec.judging import judge_loads

        return judge_loads(self, config, loads, requirements, test_dir=test_dir, attempt=attempt)

    def compare_outputs(self, measurement: Measurement, requirements: Sequence[Requirement]) -> Comparison:
        """A comparison with its answers compared, too; see :func:`pytest_specdec.output_pass.compare_outputs`."""
        from pytest_specdec.output_pass import compare_outputs

        stage = self._server_set.stage(measurement.config)
        return compare_outputs(measurement, stage, self.progress, requirements, keep=self.options.keep_outputs)

    def refuse_what_failed(self, key: str, *, again: bool) -> None:
        """Let no test try again what could not be measured for another one, unless it is run ``again``.

        Raises:
            CannotMeasure: As it was the first time.
        """
        failed = self._failures.get(key)
        if failed is not None and not again:
            raise type(failed)(f"could not be measured earlier in this run: {failed.what.splitlines()[0]}")
        self._failures.pop(key, None)

    def self_test(self, config: SpecConfig, load: LoadSpec, *, test_dir: Path) -> Comparison:
        """Measure the baseline against a second, equal server for as many rounds as the load allows.

        Raises:
            CannotMeasure: As :meth:`judge`.
        """
        from pytest_specdec.measuring import Measurement
        from pytest_specdec.workload_search import find_workload, read_found

        found = find_workload(load.workload, config=config, ini=self.options.workloads, test_dir=test_dir)
        workload = read_found(load.workload, found)
        measurement = Measurement(config, load, workload, self_test=True)
        self._check(config)
        try:
            stage = self._server_set.stage(config, twin=True)
            # Block by block where servers change in between, else round by round.
            at_once = 1 if stage.placed.kind in ("together", "swap") else load.rounds
            while measurement.rounds < load.max_rounds and measurement.measured_s < load.budget_s:
                up_to = min(measurement.rounds + at_once, load.max_rounds)
                measurement.extend(stage, up_to, self.progress, self._warm)
        finally:
            self.progress.close()
        self._measurements[f"self-test {config.id}/{load.workload}#{len(self._measurements)}"] = measurement
        comparison = measurement.comparison()
        self.measured(comparison)
        return comparison

    def measurement(self, config: SpecConfig, load: LoadSpec, test_dir: Path) -> tuple[str, Measurement]:
        """The measurement of these conditions, and its key: one that there is already, or a new one without a round.

        Raises:
            WorkloadError: The workload cannot be found or used.
        """
        from pytest_specdec.measuring import Measurement
        from pytest_specdec.workload_checks import refuse_unsendable
        from pytest_specdec.workload_search import find_workload, read_found

        found = find_workload(load.workload, config=config, ini=self.options.workloads, test_dir=test_dir)
        for key, known in self._measurements.items():
            if known.config.id == config.id and known.load == load and known.workload.path == found.path:
                return key, known
        number = 1 + sum(
            1
            for known in self._measurements.values()
            if known.config.id == config.id and known.load.workload == load.workload
        )
        key = f"{config.id}/{load.workload}" + (f"#{number}" if number > 1 else "")
        workload = read_found(load.workload, found)
        refuse_unsendable(config, workload.prompts, workload=load.workload, max_tokens=load.max_tokens)
        allow = tuple({*self.options.allow, *config.measure.allow})
        self._measurements[key] = Measurement(config, load, workload, allow=allow)
        return key, self._measurements[key]

    def extend(self, key: str, measurement: Measurement, up_to: int) -> None:
        """Run rounds; what prevents them is remembered, so that tests with the same conditions do not try again."""
        if measurement.rounds >= up_to:
            return
        try:
            measurement.refuse_unwanted_verification()
            self._check(measurement.config)
            measurement.notes += [str(f) for f in self._checked[measurement.config.id] if f.severity == "warning"]
            stage = self._server_set.stage(measurement.config)
            measurement.device = self._server_set.device
            measurement.changes = self._server_set.changes(measurement.config)
            try:
                measurement.extend(stage, up_to, self.progress, self._warm)
            finally:  # they may have been started again, otherwise
                measurement.changes = self._server_set.changes(measurement.config)
        except CannotMeasure as error:
            self._failures[key] = error
            measurement.refused = error.what
            raise
        measurement.refused = ""
        comparison = measurement.comparison()
        self.measured(comparison)
        measurement.notes += self.notes_of(comparison)

    def start_soon(self, configs: Iterable[SpecConfig]) -> None:
        """Those will be measured next: their servers may start together, except where everything is measured already."""
        measured = {measurement.config.id for measurement in self._measurements.values() if measurement.runs}
        self.soon |= {config.id: config for config in configs if config.id not in measured}

    def servers(self, config: SpecConfig) -> Mapping[Arm, Server]:
        """Both servers of a config, started if they are not up.

        Raises:
            ConfigError: The config is wrong for the vLLM that it would start.
            CannotMeasure: One does not come up, or the config's placement never has both up at once.
        """
        self._check(config)
        return self._server_set.both(config)

    def placements(self) -> dict[str, str]:
        """For every config the sentence that says how its servers share the machine, or why they cannot."""
        sentences = {}
        for config in self.configs:
            try:
                sentences[config.id] = self._server_set.place(config).placed.sentence
            except SpecDecError as error:
                sentences[config.id] = str(error)
        return sentences

    def _check(self, config: SpecConfig) -> None:
        """Before a config's first launch: hold it against the version of its vLLM."""
        from pytest_specdec.serving.preflight import launch_findings, version_behind

        if config.id not in self._checked:
            version = None if self.options.attached or self.elsewhere else version_behind(config)
            self._checked[config.id] = launch_findings(config, version)
        if errors := [finding for finding in self._checked[config.id] if finding.severity == "error"]:
            raise ConfigError(errors)

    @property
    def _server_set(self) -> ServerSet:
        from pytest_specdec.launching import ServerSet

        if self._pool is None:
            self._pool = ServerSet(
                self.options.directory,
                self.progress,
                self.change_command,
                self.machine,
                judged=lambda: self.judged,
                soon=self._soon_to_start,
                attached=self.options.attached,
                elsewhere=self.elsewhere,
            )
        return self._pool

    def _soon_to_start(self) -> list[SpecConfig]:
        """Without those that their vLLM would refuse, which is said when it is their turn."""
        if self.options.keep:  # what stays up is what was measured last
            return []
        return [config for config in self.soon.values() if self._passes(config)]

    def _passes(self, config: SpecConfig) -> bool:
        try:
            self._check(config)
        except ConfigError:
            return False
        return True

    def release(self, config: SpecConfig) -> None:
        """No test needs this config's speculating server any more; the baseline stays for the others."""
        self.soon.pop(config.id, None)
        if self._pool is not None and not self.options.keep:
            self._pool.release(config)

    def close(self) -> None:
        """End every server, or leave those that are up to whoever asked for that."""
        if self._pool is not None:
            if self.options.keep:
                self.kept += self._pool.keep()
            self._pool.close()
            self._pool = None

    def export(self) -> str:
        """What this process measured, as JSON, for another process to take over."""
        with contextlib.suppress(SpecDecError):  # of the two files, results are what must get home
            self._save_kept()
        return self.document().to_json(self.secrets)

    def take_over(self, exported: str) -> None:
        """Add what another process measured."""
        from pytest_specdec.core.results import ResultDocument

        self._taken_over.update(ResultDocument.from_json(exported).comparisons)

    def document(self) -> ResultDocument:
        """Everything measured and judged so far."""
        from pytest_specdec.core.output_pairs import without_tokens
        from pytest_specdec.core.results import ResultDocument

        return ResultDocument(
            created_unix_s=self.started_unix_s,
            environment=dict(self.environment),
            comparisons={key: without_tokens(comparison) for key, comparison in self.comparisons.items()},
            gates=tuple(self.gates.values()),
            sections=self.sections,
        )

    def save(self) -> Path | None:
        """Write the result document, if anything was measured or judged."""
        if not self.comparisons and not self.gates:
            return None
        from pytest_specdec.reporting.result_file import write_result

        write_result(self.document(), self.result_path, self.secrets)
        self._save_kept()
        return self.result_path

    def _save_kept(self) -> None:
        """Prompts and answers that differ, where they were to be kept: they stay in the process that got them."""
        kept = {key: one.output_memory.kept for key, one in self._measurements.items() if one.output_memory.kept}
        if kept:
            from pytest_specdec.reporting.kept_file import write_kept

            write_kept(kept, self.options.directory, self.secrets)
