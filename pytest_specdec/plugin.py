"""What pytest loads at every start: options, marks, fixtures, and whether a config was given.

Everything that judges lives in :mod:`pytest_specdec.gates` and is registered only when there is a config to judge with.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specdec import marker, options
from pytest_specdec.fixtures import (
    CANARY,
    DYNAMIC,
    GATES,
    UNCONFIGURED,
    assert_lossless,
    spec_canary,
    spec_comparison,
    spec_servers,
    spec_target,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_specdec.gates import Gates

__all__ = ["assert_lossless", "spec_canary", "spec_comparison", "spec_servers", "spec_target"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini values."""
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks for others."""
    from pytest_specdec import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Read the configs, unless pytest is only asked about itself; all their errors at once, exit code 4."""
    for line in marker.MARKERS:
        config.addinivalue_line("markers", line)
    if any(
        config.getoption(name, False)
        for name in ("help", "version", "markers", "showfixtures", "show_fixtures_per_test")
    ):
        return
    if config.hook.pytest_specdec_objectives.get_hookimpls():
        from pytest_specdec.adding import add_objectives

        add_objectives(config)
    if not options.asked(config):
        return
    if not sys.platform.startswith("linux"):
        raise pytest.UsageError("pytest-specdec starts vLLM servers, which it can do on Linux only")
    from pytest_specdec.gates import Gates
    from pytest_specdec.settings import read_options

    gates = Gates.opened(config, read_options(config))
    config.stash[GATES] = gates
    config.pluginmanager.register(gates, "specdec-gates")
    _register_asked_for(config, gates)


def _register_asked_for(config: pytest.Config, gates: Gates) -> None:
    """What only some runs need, beside the gates."""
    if gates.options.dynamic:
        from pytest_specdec.dynamic_gates import DynamicGates

        config.pluginmanager.register(DynamicGates(gates), DYNAMIC)
    if config.getoption("specdec_save") is not None or config.getoption("specdec_compare"):
        from pytest_specdec.history_hooks import HistoryHooks

        config.pluginmanager.register(HistoryHooks.asked_for(config, gates), "specdec-history")
    if config.getoption("specdec_prometheus"):
        from pytest_specdec.canary_gates import CanaryGates

        config.pluginmanager.register(CanaryGates.asked_for(config, gates), CANARY)
    from pytest_specdec.report_hooks import ReportHooks

    reports = ReportHooks.asked_for(config, gates)
    if reports is not None:
        config.pluginmanager.register(reports, "specdec-reports")
    from pytest_specdec.benchmark_hooks import BenchmarkHooks

    benchmarks = BenchmarkHooks.asked_for(config, gates)
    if benchmarks is not None:
        config.pluginmanager.register(benchmarks, "specdec-benchmarks")
    if gates.options.plan or gates.options.self_test or gates.options.tune:
        from pytest_specdec.previews import Previews

        config.pluginmanager.register(Previews(gates), "specdec-previews")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module or class with a bad mark is a collection error that lists all its bad marks."""
    report = yield
    if not report.passed:
        return report
    marked = [item for item in report.result if isinstance(item, pytest.Function) and marker.is_marked(item)]
    if not marked:
        return report
    from pytest_specdec.mark_problems import problems_of

    gates_run = collector.config.stash.get(GATES, None) is not None
    problems = [f"{item.nodeid}: {problem}" for item in marked for problem in problems_of(item, gates_run=gates_run)]
    if problems:
        report.outcome = "failed"
        report.longrepr = "\n".join(problems)
        report.result = []
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipped gates are easily overlooked: a CI job that loses its config stays green."""
    if terminalreporter.config.stash.get(UNCONFIGURED, False):
        terminalreporter.line("specdec: nothing was measured, for want of --specdec-config;")
        terminalreporter.line("  with --specdec-require that fails the run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run measuring tests once per config. Session scope groups them, so that each server starts once."""
    gates = metafunc.config.stash.get(GATES, None)
    if gates is not None and gates.configs and "spec_target" in metafunc.fixturenames:
        ids = [config.id for config in gates.configs]
        metafunc.parametrize("spec_target", ids, ids=ids, indirect=True, scope="session")
