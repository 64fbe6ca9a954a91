"""A machine with GPUs that are not there: what is decided and launched for them can be seen, although every server is a fake."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_specdec.serving.gpu import DeviceInfo
from pytest_specdec.serving.host import Host
from pytest_specdec.serving.machine import Machine
from pytest_specdec.session import SpecSession
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from pytest_specdec.measuring import Measurement


class PretendedMachine(Machine):
    """Devices of equal size; as many as ``CUDA_VISIBLE_DEVICES`` names, where it is set.

    Args:
        devices: How many there are.
        memory_gib: Of each.
        in_use_gib: What each reading of the memory in use gives, one after the other and the last one for ever; with none, it
            cannot be read.
    """

    def __init__(self, devices: int, *, memory_gib: float = 80.0, in_use_gib: Sequence[float] = ()) -> None:
        self._devices = devices
        self._memory_gib = memory_gib
        self._in_use_gib = list(in_use_gib)

    def devices(self, environ: Mapping[str, str] | None = None) -> tuple[DeviceInfo, ...]:
        shown = (environ or {}).get("CUDA_VISIBLE_DEVICES")
        indices = range(self._devices) if shown is None else [int(entry) for entry in shown.split(",")]
        return tuple(DeviceInfo(index, "Pretended GPU", f"GPU-{index}", self._memory_gib) for index in indices)

    def memory_used_gib(self, indices: Sequence[int]) -> dict[int, float]:
        if not self._in_use_gib:
            return {}
        now = self._in_use_gib.pop(0) if len(self._in_use_gib) > 1 else self._in_use_gib[0]
        return dict.fromkeys(indices, now)

    def host(self) -> Host:
        return Host("Pretended CPU", 8, 512.0)


def pretend_measured(monkeypatch: pytest.MonkeyPatch, **built: Any) -> None:
    """From now on no gate starts a server: what it measures is built, see :func:`build_comparison`, and always the same."""

    def extend(session: SpecSession, _: str, measurement: Measurement, up_to: int) -> None:
        if measurement.rounds < up_to:
            load = measurement.load
            comparison = build_comparison(
                rounds=up_to, load=load, requests=load.num_requests, tokens=load.max_tokens, **built
            )
            measurement.runs = list(comparison.runs)
            model = measurement.config.model
            servers = [SimpleNamespace(record=replace(one, model=model)) for one in comparison.servers]
            measurement.servers = dict(zip(("baseline", "specdec"), servers, strict=True))  # type: ignore[arg-type] # as far as they are looked at
            measurement.device = "Pretended CPU"
            session.measured(measurement.comparison())

    monkeypatch.setattr(SpecSession, "extend", extend)
