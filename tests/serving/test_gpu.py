"""Devices through a fake NVML, handed in where the real one would be imported."""

# ruff: noqa: N802 - the fake has the names of NVML

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_specdec.core.samples import DeviceReading
from pytest_specdec.serving.device_watch import DeviceWatch, combine
from pytest_specdec.serving.gpu import (
    DeviceInfo,
    describe,
    memory_used_gib,
    read_devices,
    visible_devices,
    wait_for_memory,
)

GIB = 1024**3


class NVMLError(Exception):
    pass


@dataclass
class FakeNvml:
    """The part of ``pynvml`` that is used, over devices that a test can change."""

    uuids: list[str] = field(default_factory=lambda: ["GPU-aaaa", "GPU-abbb", "GPU-cccc"])
    used: list[float] = field(default_factory=lambda: [10.0, 10.0, 10.0])
    reasons: int = 0
    running: list[Any] = field(default_factory=list)
    broken: tuple[str, ...] = ()
    opened: int = 0
    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def nvmlInit(self) -> None:
        if "nvmlInit" in self.broken:
            raise NVMLError
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def _answer(self, name: str, value: Any) -> Any:
        if name in self.broken:
            raise NVMLError
        return value

    def nvmlDeviceGetName(self, _: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return self.uuids[handle].encode()

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=141 * GIB, used=int(self.used[handle] * GIB))

    def nvmlDeviceGetClockInfo(self, _: int, kind: int) -> int:
        assert kind == self.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetPowerUsage(self, _: int) -> int:
        return self._answer("nvmlDeviceGetPowerUsage", 412_000)  # type: ignore[no-any-return]

    def nvmlDeviceGetTemperature(self, _: int, kind: int) -> int:
        assert kind == self.NVML_TEMPERATURE_GPU
        return 61

    def nvmlDeviceGetCurrentClocksEventReasons(self, _: int) -> int:
        return self._answer("nvmlDeviceGetCurrentClocksEventReasons", self.reasons)  # type: ignore[no-any-return]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: int) -> int:
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, _: int) -> list[Any]:
        return self.running


def process(pid: int, gib: float | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if gib is None else int(gib * GIB))


@pytest.mark.parametrize(
    ("shown", "indices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 2", [1, 2]),
        ("-1", []),
        ("1,-1,2", [1]),
        ("0,7,1", [0]),
        ("GPU-cccc,GPU-aa", [2, 0]),
        ("NoDevFiles", []),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(shown: str | None, indices: list[int]) -> None:
    environ = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    assert [device.index for device in visible_devices(environ, nvml=FakeNvml())] == indices


def test_a_device_is_described() -> None:
    assert visible_devices({}, nvml=FakeNvml(uuids=["GPU-aaaa"])) == (DeviceInfo(0, "NVIDIA H200", "GPU-aaaa", 141.0),)


def test_without_a_driver_there_are_no_devices() -> None:
    assert visible_devices({}, nvml=FakeNvml(broken=("nvmlInit",))) == ()
    assert read_devices([0], (), nvml=FakeNvml(broken=("nvmlInit",))) == ()


def test_without_the_library_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert visible_devices({}) == ()
    assert read_devices([0], ()) == ()


def test_nvml_is_closed_again() -> None:
    nvml = FakeNvml()
    read_devices([0, 1], (), nvml=nvml)
    visible_devices({}, nvml=nvml)
    assert nvml.opened == 0


def test_a_healthy_device_reads_plain() -> None:
    assert read_devices([1], (), nvml=FakeNvml(reasons=0x1 | 0x2)) == (
        DeviceReading(
            index=1,
            name="NVIDIA H200",
            sm_clock_mhz=1980,
            power_w=412.0,
            temperature_c=61,
            memory_used_gib=10.0,
            throttle_reasons=(),
        ),
    )


def test_throttle_reasons_are_words() -> None:
    (reading,) = read_devices([0], (), nvml=FakeNvml(reasons=0x4 | 0x40 | 0x1))
    assert reading.throttle_reasons == ("software power cap", "hardware thermal slowdown")


def test_an_older_library_names_the_reasons_differently() -> None:
    nvml = FakeNvml(reasons=0x20, broken=("nvmlDeviceGetCurrentClocksEventReasons",))
    assert read_devices([0], (), nvml=nvml)[0].throttle_reasons == ("software thermal slowdown",)


def test_what_cannot_be_read_stays_none() -> None:
    (reading,) = read_devices([0], (), nvml=FakeNvml(broken=("nvmlDeviceGetPowerUsage",)))
    assert (reading.power_w, reading.temperature_c) == (None, 61)


def test_a_foreign_process_is_named_with_its_memory() -> None:
    own, foreign = 999_999_999, os.getpid()
    comm = Path(f"/proc/{foreign}/comm").read_text().strip()
    nvml = FakeNvml(running=[process(own, 40.0), process(foreign, 10.2)])
    assert read_devices([0], {own}, nvml=nvml)[0].foreign_processes == (f"pid {foreign} ({comm}) 10.2 GiB",)


def test_the_measured_servers_memory_is_that_of_its_processes() -> None:
    nvml = FakeNvml(running=[process(1, 40.0), process(2, 3.5), process(3, 50.0)])
    (reading,) = read_devices([0], {1, 2, 3}, measured_pids={1, 2}, nvml=nvml)
    assert reading.server_memory_gib == 43.5


@pytest.mark.parametrize("running", [[], [process(1, 40.0), process(2, None)]])
def test_memory_that_is_told_for_some_processes_only_is_unknown(running: list[Any]) -> None:
    (reading,) = read_devices([0], {1, 2}, measured_pids={1, 2}, nvml=FakeNvml(running=running))
    assert reading.server_memory_gib is None


def test_memory_that_is_not_told_is_left_out() -> None:
    nvml = FakeNvml(running=[process(999_999_999, None)])
    assert read_devices([0], (), nvml=nvml)[0].foreign_processes == ("pid 999999999 (unknown)",)


def test_our_own_server_under_the_hosts_numbering_is_not_foreign() -> None:
    nvml = FakeNvml(running=[process(999_999_999, 40.0)])
    assert read_devices([0], {os.getpid()}, nvml=nvml)[0].foreign_processes == ()


def test_devices_are_counted_in_the_description() -> None:
    device = DeviceInfo(0, "NVIDIA H200", "GPU-a", 141.0)
    assert describe([]) == ""
    assert describe([device]) == "NVIDIA H200"
    assert describe([device, device]) == "2 x NVIDIA H200"


def test_memory_is_waited_for_until_it_is_back() -> None:
    nvml = FakeNvml(used=[80.0, 1.0, 0.0])
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        nvml.used[0] -= 30.0

    assert wait_for_memory({0: 10.0, 1: 1.0}, timeout_s=60, nvml=nvml, sleep=nap, clock=lambda: 0.0)
    assert len(naps) == 3


def test_memory_that_stays_away_is_given_up() -> None:
    times = iter([0.0, 10.0, 31.0])
    nvml = FakeNvml(used=[80.0, 0.0, 0.0])
    assert not wait_for_memory({0: 10.0}, timeout_s=30, nvml=nvml, sleep=lambda _: None, clock=lambda: next(times))


def test_memory_in_use_is_given_by_index() -> None:
    assert memory_used_gib([2, 0], nvml=FakeNvml(used=[1.0, 2.0, 3.0])) == {2: 3.0, 0: 1.0}


def test_readings_of_a_run_combine_to_its_worst_moment() -> None:
    moments = [
        (DeviceReading(0, "H", 300, 100.0, 40, 10.0, server_memory_gib=9.0),),
        (DeviceReading(0, "H", 1980, 600.0, 70, 80.0, ("software power cap",), ("pid 1 (x)",)),),
        (DeviceReading(0, "H", 1900, None, 65, 80.0, (), ("pid 1 (x)",)),),
    ]
    assert combine(moments) == (
        DeviceReading(0, "H", 1900, 600.0, 70, 80.0, ("software power cap",), ("pid 1 (x)",), server_memory_gib=9.0),
    )


def test_a_watch_reads_at_least_once_and_ends_its_thread() -> None:
    nvml = FakeNvml(reasons=0x40)
    with DeviceWatch([0], (), every_s=60, nvml=nvml) as watch:
        pass
    assert watch.summary()[0].throttle_reasons == ("hardware thermal slowdown",)


def test_a_watch_without_devices_reads_nothing() -> None:
    with DeviceWatch([], ()) as watch:
        pass
    assert watch.summary() == ()
