"""The fixtures that tests ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_specdec.marker import measures

if TYPE_CHECKING:
    from pytest_specdec.canary_gates import SpecCanary
    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.gates import Gates
    from pytest_specdec.handed import SpecComparison, SpecServers
    from pytest_specdec.lossless_probe import LosslessProbe

GATES: pytest.StashKey[Gates] = pytest.StashKey()
DYNAMIC = "specdec-dynamic"
"""Name of the plugin that derives configs."""

CANARY = "specdec-canary"
"""Name of the plugin that judges live traffic."""

UNCONFIGURED: pytest.StashKey[bool] = pytest.StashKey()
"""Whether measuring tests were skipped for want of a config."""

NO_CONFIG = "no speculative config: give --specdec-config=FILE, or set specdec_config in the ini file"


@pytest.fixture(scope="session")
def spec_target(request: pytest.FixtureRequest) -> SpecConfig:
    """The config under test; tests that use it, directly or not, run once per ``--specdec-config``."""
    gates = request.config.stash.get(GATES, None)
    if gates is None or not gates.configs:
        request.config.stash[UNCONFIGURED] = True
        pytest.skip(NO_CONFIG)
    _refuse_parallel(request.config)
    configs = request.config.pluginmanager.get_plugin(DYNAMIC) or gates.session
    config: SpecConfig = configs.config(request.param)
    return config


def _refuse_parallel(config: pytest.Config) -> None:
    """Several workers would measure each other; said per test, so that nothing passes silently."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        pytest.fail(
            f"not measured: {workers} pytest-xdist workers would share the device and slow each other down; "
            "run gates with -n 0, or without -n",
            pytrace=False,
        )


@pytest.fixture
def spec_comparison(request: pytest.FixtureRequest, spec_target: SpecConfig) -> SpecComparison:
    """Measures this test's conditions on both servers and judges its objectives.

    Not being able to measure is an error in the test's set-up. Objectives that are missed fail the test after its body.
    """
    item = cast("pytest.Function", request.node)
    assert measures(item)  # noqa: S101 - the fixture itself is what makes it so
    return request.config.stash[GATES].measure(item, spec_target)


@pytest.fixture
def spec_canary(request: pytest.FixtureRequest) -> SpecCanary:
    """Judges this test's objectives on live traffic from ``--specdec-prometheus``; nothing is started.

    Not being able to is an error in the test's set-up. Objectives that are missed fail the test after its body.
    """
    gates = request.config.pluginmanager.get_plugin(CANARY)
    if gates is None:
        pytest.skip("no live traffic to judge: give --specdec-prometheus=URL and both selectors")
    canary: SpecCanary = gates.judge(cast("pytest.Function", request.node))
    return canary


@pytest.fixture
def spec_servers(request: pytest.FixtureRequest, spec_target: SpecConfig) -> SpecServers:
    """Both servers of the config, for tests that send their own requests."""
    return request.config.stash[GATES].serve(spec_target)


@pytest.fixture(scope="session")
def assert_lossless(request: pytest.FixtureRequest, spec_target: SpecConfig) -> LosslessProbe:
    """A function that sends a prompt to both servers and fails when the answers differ by more than numerics explain.

    Of session scope, so that Hypothesis can call a test with it as often as it likes. See :mod:`pytest_specdec.fuzzing`.
    """
    return request.config.stash[GATES].probe(spec_target)
