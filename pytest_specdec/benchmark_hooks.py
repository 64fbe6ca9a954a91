"""Every gate's rounds as benchmarks of pytest-benchmark, so that its JSON, storage, comparison and histogram hold them.

Registered only when pytest-benchmark was asked for one of these. It has no hook that adds benchmarks, and its fixture makes one for
each test; so they are appended to the list that all its hooks are handed, as records of its own class.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from pytest_specdec.core.results import GateRecord
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.gates import Gates

_OUTPUTS = ("json", "save", "autosave", "compare", "histogram")
"""Options of pytest-benchmark that make something of benchmarks."""


@dataclass
class Measured:
    """What pytest-benchmark's records take from the fixture of a test."""

    name: str
    fullname: str
    """By which runs are matched in a comparison."""
    group: str
    params: dict[str, str]
    extra_info: dict[str, object]
    param: None = None
    cprofile_stats: None = None
    has_error: bool = field(default=False, init=False)


class BenchmarkHooks:
    """Hands the gates' rounds to pytest-benchmark before it finishes."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.refused = ""
        self.added: set[str] = set()
        self.seen: set[str] = set()

    @classmethod
    def asked_for(cls, config: pytest.Config, gates: Gates) -> BenchmarkHooks | None:
        """None where pytest-benchmark is away or off, or was asked for nothing."""

        def given(name: str) -> Any:
            return config.getoption(f"benchmark_{name}", None)

        off = given("skip") or (given("disable") and not given("enable"))
        return cls(gates) if any(map(given, _OUTPUTS)) and not off else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # pytest-benchmark writes and compares before the others' turn
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Add the benchmarks; an output that was asked for and lacks them fails the run."""
        benchmarks = session.config.pluginmanager.get_plugin("pytest-benchmark")
        if not getattr(benchmarks, "disabled", False):
            try:
                self._add_to(benchmarks)
            except (ImportError, AttributeError, TypeError) as error:
                self.refused = f"{type(error).__name__}: {error}"
        result = yield
        if self.trouble and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return result

    @property
    def trouble(self) -> str:
        """Why the outputs lack the gates' rounds; empty where they have them. Valid from when pytest-benchmark has finished."""
        left_out = len(self.added - self.seen)
        return self.refused or (f"of {len(self.added)} benchmarks it left out {left_out}" if left_out else "")

    def _add_to(self, benchmarks: Any) -> None:
        """All of them or none."""
        records = []
        for measured, rounds_s in self._measured():
            stats: Any = importlib.import_module("pytest_benchmark.stats")
            record = stats.Metadata(measured, iterations=1, options={})
            for one in rounds_s:
                record.update(one)
            records.append(record)
        if records:
            benchmarks.benchmarks += records
            self.added = {record.fullname for record in records}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_benchmark_group_stats(self, benchmarks: Iterable[Mapping[str, object]]) -> None:
        """Of which benchmarks pytest-benchmark has made something; it calls this after it has saved."""
        self.seen = {str(one["fullname"]) for one in benchmarks}

    def pytest_terminal_summary(self) -> None:
        """Say what was not possible."""
        if self.trouble:
            from importlib.metadata import version

            self.gates.show_trouble(
                f"pytest-benchmark {version('pytest-benchmark')} does not take the gates' rounds ({self.trouble}): its "
                "outputs lack them. Install another release of it, or leave its --benchmark options out"
            )

    def _measured(self) -> Iterator[tuple[Measured, Sequence[float]]]:
        from pytest_specdec.core.per_round import ROUND_QUANTITIES, seconds_per_token
        from pytest_specdec.core.samples import ARMS

        comparisons = self.gates.session.comparisons
        for gate in self.gates.session.gates.values():
            keys = gate.points or filter(None, [gate.comparison])
            for comparison in (comparisons[key] for key in keys if key in comparisons):
                info = _extra_info(gate, comparison)
                for arm in ARMS:
                    for quantity in ROUND_QUANTITIES:
                        if rounds_s := seconds_per_token(comparison, arm, quantity):
                            yield _named(gate, comparison, arm, quantity, info), rounds_s


def _named(gate: GateRecord, comparison: Comparison, arm: Arm, quantity: str, info: Mapping[str, object]) -> Measured:
    what = f"{quantity} of {arm}" + (f" @ {comparison.load.at}" if gate.points else "")
    return Measured(
        name=f"{gate.nodeid.rpartition('::')[2]}: {what}",
        fullname=f"{gate.nodeid}: {what}",
        group=arm,
        params={"arm": arm, "quantity": quantity, "config": comparison.config_id},
        extra_info={**info, "unit": "seconds per token"},
    )


def _extra_info(gate: GateRecord, comparison: Comparison) -> dict[str, object]:
    """Acceptance, gain and verdict beside every benchmark of a gate; what was not measured is None."""
    from pytest_specdec.core.judge import Figures
    from pytest_specdec.core.summary import summarise

    acceptance = summarise(comparison).acceptance
    gain, _ = Figures(comparison).of("tpot_gain")
    return {
        "verdict": gate.judgement,
        "acceptance_length": acceptance.acceptance_length if acceptance else None,
        "acceptance_rate": acceptance.acceptance_rate if acceptance else None,
        "tpot_gain": gain.value if gain else None,
        "tpot_gain_low": gain.low if gain else None,
        "tpot_gain_high": gain.high if gain else None,
        "workload": comparison.workload.name,
        "load": comparison.load.at,
        "device": comparison.device,
        "notes": list(comparison.notes),
        "vllm": next((server.version for server in comparison.servers), None),
    }
