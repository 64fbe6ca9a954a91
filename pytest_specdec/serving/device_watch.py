"""Devices read while a run goes on: a throttled GPU looks healthy again as soon as the load is gone."""

from __future__ import annotations

import statistics
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.serving.gpu import read_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from typing_extensions import Self

    from pytest_specdec.core.samples import DeviceReading


class DeviceWatch:
    """Reads devices in a thread of its own for as long as the ``with`` block lasts.

    Args:
        indices: NVML's indices; with none, nothing is read.
        own_pids: Processes of our servers.
        measured_pids: Those of the server under load.
        every_s: Seconds between readings.
        nvml: The ``pynvml`` module; default: the installed one.
    """

    def __init__(
        self,
        indices: Sequence[int],
        own_pids: Collection[int],
        *,
        measured_pids: Collection[int] = (),
        every_s: float = 1.0,
        nvml: Any = None,
    ) -> None:
        self._indices, self._own_pids, self._measured_pids = tuple(indices), own_pids, measured_pids
        self._every_s, self._nvml = every_s, nvml
        self._readings: list[tuple[DeviceReading, ...]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="specdec-device-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._indices:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._indices:
            self._thread.join()

    def _watch(self) -> None:
        while True:
            self._readings.append(
                read_devices(self._indices, self._own_pids, measured_pids=self._measured_pids, nvml=self._nvml)
            )
            if self._over.wait(self._every_s):
                return

    def summary(self) -> tuple[DeviceReading, ...]:
        """One reading per device: :func:`combine` of all."""
        return combine(self._readings)


def combine(readings: Sequence[tuple[DeviceReading, ...]]) -> tuple[DeviceReading, ...]:
    """Per device: median clock; highest power, temperature and memory; every throttle reason and foreign process seen."""
    by_index: dict[int, list[DeviceReading]] = {}
    for reading in (reading for moment in readings for reading in moment):
        by_index.setdefault(reading.index, []).append(reading)
    return tuple(
        replace(
            seen[-1],
            sm_clock_mhz=_of(statistics.median_low, [reading.sm_clock_mhz for reading in seen]),
            power_w=_of(max, [reading.power_w for reading in seen]),
            temperature_c=_of(max, [reading.temperature_c for reading in seen]),
            memory_used_gib=_of(max, [reading.memory_used_gib for reading in seen]),
            server_memory_gib=_of(max, [reading.server_memory_gib for reading in seen]),
            throttle_reasons=tuple(dict.fromkeys(reason for reading in seen for reason in reading.throttle_reasons)),
            foreign_processes=tuple(
                dict.fromkeys(process for reading in seen for process in reading.foreign_processes)
            ),
        )
        for seen in by_index.values()
    )


def _of(choose: Callable[[list[Any]], Any], values: Sequence[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return choose(known) if known else None
