"""What the steps of the acceptance procedure need: their conditions, from the options, and the section that they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.acceptance.conditions import Conditions, conditions_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SAID = pytest.StashKey[dict[str, list[str]]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per class of traffic, and one per load, each with its marks."""
    if not {"traffic_class", "load_point", "live_traffic"} & set(metafunc.fixturenames):
        return
    conditions = conditions_of(metafunc.config)
    if "live_traffic" in metafunc.fixturenames:
        objectives = pytest.mark.spec_slo(**conditions.procedure.live_objectives)
        metafunc.parametrize("live_traffic", [pytest.param("live", marks=objectives)])
        return
    if "traffic_class" in metafunc.fixturenames:
        if unknown := conditions.floors_of_nothing():
            names = ", ".join(conditions.workloads)
            raise pytest.Collector.CollectError(
                f"class_acceptance_length: {', '.join(unknown)}: no such workload in step 3 (there are {names}); "
                "a class of one of them is written as WORKLOAD/CLASS"
            )
        rows = [
            pytest.param(name, marks=[_load(conditions, name, "low"), pytest.mark.spec_slo(**conditions.floors(name))])
            for name in conditions.workloads
        ]
        metafunc.parametrize("traffic_class", rows)
    else:
        rows = [
            pytest.param(point, marks=[_load(conditions, conditions.traffic, point), pytest.mark.spec_slo(**slo)])
            for point, slo in conditions.objectives.items()
        ]
        metafunc.parametrize("load_point", rows)


def _load(conditions: Conditions, workload: str, point: str) -> pytest.MarkDecorator:
    return pytest.mark.spec_load(workload=workload, **conditions.points[point])


@pytest.fixture(scope="session")
def conditions(request: pytest.FixtureRequest) -> Conditions:
    """What the procedure measures and demands."""
    return conditions_of(request.config)


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Writes a line under the test's name into the section at the end of the run."""
    said = request.config.stash.setdefault(_SAID, {})
    return said.setdefault(request.node.name, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What each step found."""
    said = terminalreporter.config.stash.get(_SAID, {})
    if any(said.values()):
        terminalreporter.section("acceptance procedure")
        for name, lines in said.items():
            for line in [name, *(f"  {line}" for line in lines)] if lines else []:
                terminalreporter.line(line)
