"""Under which conditions the procedure measures: workloads, loads and sizes, from its settings, the configs and the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.procedure import Procedure
from pytest_specdec.fixtures import GATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from pytest_specdec.core.config import LoadPoint, SpecConfig

BUNDLED = ("code", "chat", "structured")
_LOW = 1
_STEADY = 4
"""Requests per slot that a steady window takes."""


@dataclass(frozen=True)
class _Sizes:
    """What a machine can do in a few minutes."""

    high: int
    requests: int
    max_tokens: int
    rounds: int | None


# 20: with four rounds, each of the 80 prompts of a bundled workload once; one at a time, more would take minutes for the same.
_WITH_GPU = _Sizes(high=32, requests=20, max_tokens=128, rounds=None)
_WITHOUT_GPU = _Sizes(high=4, requests=12, max_tokens=32, rounds=4)


@dataclass(frozen=True)
class Conditions:
    """What is measured, and what is demanded of it."""

    procedure: Procedure
    workloads: tuple[str, ...]
    traffic: str
    """The workload of step 4."""
    points: Mapping[str, Mapping[str, Any]]
    """``low`` and ``high`` as ``spec_load`` takes them."""
    max_tokens: int
    """Of an answer, where the load point does not say."""
    objectives: Mapping[str, Mapping[str, float]]
    """By load point, as ``spec_slo`` takes them."""
    notes: tuple[str, ...] = ()
    """Where the loads come from."""

    def floors(self, workload: str) -> dict[str, float | dict[str, float]]:
        """What acceptance in a workload must reach, as ``spec_slo`` takes it."""
        stated = self.procedure.class_acceptance_length
        of_classes = {
            name.rpartition("/")[2]: value
            for name, value in stated.items()
            if self._workload_of(name) == workload and name != workload
        }
        floors: dict[str, float | dict[str, float]] = {
            "min_acceptance_length": stated.get(workload, self.procedure.acceptance_length)
        }
        return floors | ({"min_class_acceptance_length": of_classes} if of_classes else {})

    def floors_of_nothing(self) -> list[str]:
        """Names among the floors that are none of the workloads, and of no class of theirs."""
        return [name for name in self.procedure.class_acceptance_length if self._workload_of(name) is None]

    def _workload_of(self, name: str) -> str | None:
        """Paths of workloads hold slashes, too."""
        candidates = (name, name.rpartition("/")[0])
        return next((one for one in candidates if one in self.workloads), None)


def conditions_of(config: pytest.Config) -> Conditions:
    """From the settings and the configs of this run."""
    gates = config.stash.get(GATES, None)
    if gates is None:
        return conditions(Procedure(), (), gpu=False)
    from pytest_specdec.serving.machine import Machine

    machine = gates.session.machine or Machine()
    return conditions(gates.options.procedure, gates.configs, gpu=bool(machine.devices()))


def conditions(procedure: Procedure, configs: Sequence[SpecConfig], *, gpu: bool) -> Conditions:
    """A load point of the configs counts only if every config has it, so that all are measured under the same loads.

    Args:
        procedure: Its settings.
        configs: Of this run.
        gpu: Whether there is a GPU.
    """
    common = [name for name in (configs[0].workloads if configs else ()) if all(name in c.workloads for c in configs)]
    workloads = procedure.workloads or tuple(common) or BUNDLED
    traffic = procedure.traffic or ("chat" if "chat" in workloads else workloads[0])
    machine = _WITH_GPU if gpu else _WITHOUT_GPU
    sizes = _Sizes(
        machine.high,
        procedure.requests or machine.requests,
        procedure.max_tokens or machine.max_tokens,
        procedure.rounds or machine.rounds,
    )
    rounds = {"rounds": sizes.rounds, "max_rounds": sizes.rounds} if sizes.rounds else {}
    points, notes = {}, []
    for name, chosen, default in (("low", procedure.low, _LOW), ("high", procedure.high, sizes.high)):
        if chosen is None and configs and all(name in one.load for one in configs):
            points[name] = {"load": name, **rounds, **_left_open(sizes, configs[0].load[name])}
            notes.append(f"{name} load: the configs' load point")
            continue
        concurrency = chosen or default
        size = max(sizes.requests, _STEADY * concurrency)
        points[name] = {"concurrency": concurrency, "num_requests": size, "max_tokens": sizes.max_tokens, **rounds}
        ignored = " (not every config has that load point)" if any(name in one.load for one in configs) else ""
        source = ignored if chosen is None else " (as set)"
        notes.append(f"{name} load: concurrency {concurrency}, {size} requests a round{source}")
    busy = "tpot_gain" if _at_a_rate(configs, points) else "throughput_gain"
    objectives = {
        "low": {"tpot_gain": procedure.tpot_gain},
        # At a rate that is kept up with, throughput is what is offered; the answers must not become slower.
        "high": {busy: 0.0 if busy == "tpot_gain" else procedure.throughput_gain},
    }
    return Conditions(procedure, workloads, traffic, points, sizes.max_tokens, objectives, tuple(notes))


def _at_a_rate(configs: Sequence[SpecConfig], points: Mapping[str, Mapping[str, Any]]) -> bool:
    return "load" in points["high"] and any(one.load["high"].request_rate is not None for one in configs)


def _left_open(sizes: _Sizes, point: LoadPoint) -> dict[str, int]:
    """What the config's load point does not say."""
    fields = point.load_fields()
    size = max(sizes.requests, _STEADY * (fields.get("concurrency") or 1))
    return {
        name: value
        for name, value in (("num_requests", size), ("max_tokens", sizes.max_tokens))
        if fields.get(name) is None
    }
