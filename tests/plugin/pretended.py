"""A machine with GPUs that are not there: what is decided and launched for them can be seen, although every server is a fake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.serving.gpu import DeviceInfo
from pytest_specdec.serving.host import Host
from pytest_specdec.serving.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
