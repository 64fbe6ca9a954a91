"""Who holds a device, through a fake NVML that is handed in where the real one would be imported."""

# ruff: noqa: N802 - the fake has the names of NVML

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_specdec.serving.device_holders import device_holders

MIB = 1024**2
NOBODY = 4_194_305
"""More than Linux gives out as a process id."""


class NVMLError(Exception):
    pass


@dataclass
class FakeNvml:
    running: list[Any] = field(default_factory=list)
    broken: tuple[str, ...] = ()
    NVMLError = NVMLError

    def _answer(self, name: str, value: Any) -> Any:
        if name in self.broken:
            raise NVMLError
        return value

    def nvmlInit(self) -> None:
        self._answer("init", None)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, _: int) -> Any:
        return self._answer("memory", SimpleNamespace(total=81_559 * MIB, used=61_234 * MIB))

    def nvmlDeviceGetComputeRunningProcesses(self, _: int) -> Any:
        return self._answer("processes", self.running)


def process(pid: int, mib: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


def test_processes_are_listed_by_what_they_hold() -> None:
    nvml = FakeNvml([process(os.getpid(), 300), process(7, 60_000), process(NOBODY, None)])
    own = Path("/proc/self/comm").read_text().strip()
    held = f"pid 7 (our baseline server) 60000 MiB, pid {os.getpid()} ({own}) 300 MiB, pid {NOBODY} (not visible from here)"
    assert device_holders([0], {"our baseline server": [7]}, nvml=nvml) == (
        f"device 0: 61234 of 81559 MiB in use; {held}",
    )


def test_of_many_processes_the_largest_are_listed() -> None:
    line = device_holders([0], {"x": range(100)}, nvml=FakeNvml([process(n, n + 1) for n in range(9)]))[0]
    assert line.endswith("pid 3 (x) 4 MiB and 3 more")


@pytest.mark.parametrize(
    ("broken", "lines"),
    [("init", ()), ("memory", ()), ("processes", ("device 0: 61234 of 81559 MiB in use",))],
)
def test_what_cannot_be_read_is_left_out(broken: str, lines: tuple[str, ...]) -> None:
    assert device_holders([0], {}, nvml=FakeNvml([process(7, 1)], broken=(broken,))) == lines


def test_without_devices_nothing_is_read() -> None:
    assert device_holders([], {}, nvml=FakeNvml()) == ()
