"""What speculation costs besides time per token: start-up and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import judge
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.samples import DeviceReading
from pytest_specdec.core.server_facts import ServerFacts
from pytest_specdec.core.side_effects import startup
from pytest_specdec.core.verdict import Requirement
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import ArmRun, Comparison
    from pytest_specdec.core.verdict import Outcome


def test_the_slowest_start_of_the_speculating_server_counts() -> None:
    comparison = build_comparison()
    again = replace(comparison.servers[1], startup_s=52.0, launch=1)
    estimate = startup(
        Evidence(replace(comparison, servers=(*comparison.servers, again)), 0.95), Requirement("max_startup_s", 60)
    )
    assert (estimate.value, estimate.level) == (52.0, None)


def test_a_server_that_was_not_started_here_has_no_start_up_time() -> None:
    with pytest.raises(CannotMeasure, match="not started here"):
        startup(Evidence(replace(build_comparison(), servers=()), 0.95), Requirement("max_startup_s", 60))


def test_a_start_beside_another_one_tells_nothing_about_a_start() -> None:
    comparison = build_comparison()
    servers = tuple(replace(server, started_beside=True) for server in comparison.servers)
    with pytest.raises(CannotMeasure, match=r"(?s)side by side.*They start one after the other in a run"):
        startup(Evidence(replace(comparison, servers=servers), 0.95), Requirement("max_startup_s", 60))


def with_capacity(baseline: str | None, specdec: str | None) -> Comparison:
    comparison = build_comparison()
    facts = [ServerFacts(effective={"KV cache tokens": size} if size else {}) for size in (baseline, specdec)]
    servers = (replace(server, facts=one) for server, one in zip(comparison.servers, facts, strict=True))
    return replace(comparison, servers=tuple(servers))


@pytest.mark.parametrize(("limit", "outcome"), [(0.2, "ok"), (0.1, "FAIL")])
def test_a_smaller_kv_cache_is_a_loss(limit: float, outcome: Outcome) -> None:
    (verdict,) = judge(with_capacity("100,000", "85,000"), REGISTRY["max_kv_capacity_loss"].parse(limit))
    assert verdict.estimate.value == pytest.approx(0.15)
    assert verdict.estimate.remark == "a KV cache of 100,000 tokens without, 85,000 with speculation"
    assert verdict.outcome == outcome


@pytest.mark.parametrize(("sizes", "silent"), [((None, "85,000"), "baseline"), (("100,000", None), "specdec")])
def test_a_log_that_does_not_tell_is_no_loss_of_zero(sizes: tuple[str | None, str | None], silent: str) -> None:
    with pytest.raises(CannotMeasure, match=f"the {silent} server's log does not tell"):
        judge(with_capacity(*sizes), REGISTRY["max_kv_capacity_loss"].parse(0.1))


def with_memory(*held_gib: float | None) -> Comparison:
    """Two devices of the speculating server, the second always at 1 GiB."""
    readings = iter(held_gib)

    def read(run: ArmRun) -> ArmRun:
        devices = (DeviceReading(0, server_memory_gib=next(readings)), DeviceReading(1, server_memory_gib=1.0))
        return replace(run, devices=devices)

    comparison = build_comparison(rounds=2)
    return replace(comparison, runs=tuple(read(run) if run.arm == "specdec" else run for run in comparison.runs))


@pytest.mark.parametrize(("limit", "outcome"), [(64.0, "ok"), (63.9, "FAIL")])
def test_memory_adds_up_over_devices_and_the_worst_run_counts(limit: float, outcome: Outcome) -> None:
    (verdict,) = judge(with_memory(60.0, 63.0), REGISTRY["max_gpu_memory_gib"].parse(limit))
    assert (verdict.estimate.value, verdict.outcome) == (64.0, outcome)


def test_memory_that_nobody_saw_is_not_zero() -> None:
    with pytest.raises(CannotMeasure, match="nobody saw"):
        judge(with_memory(None, None), REGISTRY["max_gpu_memory_gib"].parse(10))
    with pytest.raises(CannotMeasure, match="nobody saw"):
        judge(build_comparison(), REGISTRY["max_gpu_memory_gib"].parse(10))
