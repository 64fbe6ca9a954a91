"""NVIDIA devices through NVML: which there are, how they are doing, whether their memory is back.

Needs ``nvidia-ml-py`` (the extra ``gpu``; vLLM's CUDA wheels bring it). Without it, or without a driver, there are no devices.
Indices are NVML's own, in PCI order; vLLM sees the same order under ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, which matters only where
a machine has different GPUs.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.samples import DeviceReading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_GIB = 1024**3
_MEMORY_SLACK_GIB = 0.5
"""Left by drivers and desktops; a server holds gigabytes."""
_POLL_S = 0.25

_THROTTLE_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
"""NVML's bits. Left out: idle (0x1), and clocks that somebody set on purpose (0x2)."""


@dataclass(frozen=True)
class DeviceInfo:
    """One device that this process may use."""

    index: int
    name: str
    uuid: str
    memory_total_gib: float


@contextlib.contextmanager
def open_nvml(nvml: Any) -> Iterator[Any]:
    """NVML, initialised; None where it cannot be used."""
    if nvml is None:
        try:
            import pynvml as nvml  # type: ignore[import-untyped,no-redef]
        except ImportError:
            yield None
            return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    """Older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else value


def visible_devices(environ: Mapping[str, str] | None = None, *, nvml: Any = None) -> tuple[DeviceInfo, ...]:
    """The devices that ``CUDA_VISIBLE_DEVICES`` shows, in its order; all when it is not set; none without a GPU.

    Args:
        environ: Default: the process's own.
        nvml: The ``pynvml`` module; default: the installed one.
    """
    with open_nvml(nvml) as library:
        if library is None:
            return ()
        devices = []
        for index in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            devices.append(
                DeviceInfo(
                    index=index,
                    name=_text(library.nvmlDeviceGetName(handle)),
                    uuid=_text(library.nvmlDeviceGetUUID(handle)),
                    memory_total_gib=library.nvmlDeviceGetMemoryInfo(handle).total / _GIB,
                )
            )
    shown = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    return tuple(devices) if shown is None else _select(devices, shown)


def _select(devices: Sequence[DeviceInfo], shown: str) -> tuple[DeviceInfo, ...]:
    """As CUDA reads the variable: numbers or starts of UUIDs, and nothing from the first entry on that matches none."""
    selected: list[DeviceInfo] = []
    for entry in (part.strip() for part in shown.split(",")):
        matching = [
            device
            for device in devices
            if (entry == str(device.index) if entry.isdigit() else entry and device.uuid.startswith(entry))
        ]
        if not matching:
            break
        selected.append(matching[0])
    return tuple(selected)


def describe(devices: Sequence[DeviceInfo]) -> str:
    """``NVIDIA H200``, ``2 x NVIDIA H200``; empty without devices."""
    names = [device.name for device in devices]
    return ", ".join(
        f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)
    )


def read_devices(
    indices: Sequence[int], own_pids: Collection[int], *, measured_pids: Collection[int] = (), nvml: Any = None
) -> tuple[DeviceReading, ...]:
    """How the devices are doing at this moment; what one does not tell stays None.

    Args:
        indices: NVML's indices.
        own_pids: Processes of our servers; others on the device are foreign.
        measured_pids: Those of the server whose memory is of interest.
        nvml: The ``pynvml`` module; default: the installed one.
    """
    if not indices:
        return ()
    with open_nvml(nvml) as library:
        if library is None:
            return ()
        return tuple(_read_device(library, index, own_pids, measured_pids) for index in indices)


def _read_device(library: Any, index: int, own_pids: Collection[int], measured_pids: Collection[int]) -> DeviceReading:
    def ask(function: str, *arguments: Any) -> Any:
        with contextlib.suppress(library.NVMLError, AttributeError):
            return getattr(library, function)(library.nvmlDeviceGetHandleByIndex(index), *arguments)
        return None

    name = ask("nvmlDeviceGetName")
    power_mw = ask("nvmlDeviceGetPowerUsage")
    memory = ask("nvmlDeviceGetMemoryInfo")
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:  # the name before driver 535
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    running = ask("nvmlDeviceGetComputeRunningProcesses") or ()
    held = [process.usedGpuMemory for process in running if process.pid in measured_pids]
    return DeviceReading(
        index=index,
        name=None if name is None else _text(name),
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_SM),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU),
        memory_used_gib=None if memory is None else memory.used / _GIB,
        throttle_reasons=tuple(word for bit, word in _THROTTLE_REASONS.items() if (reasons or 0) & bit),
        foreign_processes=_foreign(running, own_pids),
        server_memory_gib=sum(held) / _GIB if held and None not in held else None,
    )


def _foreign(running: Sequence[Any], own_pids: Collection[int]) -> tuple[str, ...]:
    """In a container NVML may number processes as the host does: a number that ``/proc`` does not know may be our own server."""
    numbered_like_us = not own_pids or any(process.pid in own_pids for process in running)
    return tuple(
        f"pid {process.pid} ({name or 'unknown'})"
        + (f" {process.usedGpuMemory / _GIB:.1f} GiB" if process.usedGpuMemory else "")
        for process in running
        if process.pid not in own_pids and ((name := process_name(process.pid)) or numbered_like_us)
    )


def process_name(pid: int) -> str:
    """What a process of this machine is called; empty for a number that ``/proc`` does not know."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def memory_used_gib(indices: Sequence[int], *, nvml: Any = None) -> dict[int, float]:
    """Memory in use by index, of the devices that tell."""
    readings = read_devices(indices, (), nvml=nvml)
    return {reading.index: reading.memory_used_gib for reading in readings if reading.memory_used_gib is not None}


def wait_for_memory(
    before_gib: Mapping[int, float],
    *,
    timeout_s: float,
    nvml: Any = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether within ``timeout_s`` the devices use no more memory than before (the driver frees it some time after the process)."""
    deadline = clock() + timeout_s
    while True:
        used = memory_used_gib(tuple(before_gib), nvml=nvml)
        if all(gib <= before_gib[index] + _MEMORY_SLACK_GIB for index, gib in used.items()):
            return True
        if clock() >= deadline:
            return False
        sleep(_POLL_S)
