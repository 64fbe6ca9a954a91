"""What servers can run on: the devices that can be seen, their memory, and the host. Handed in where a test needs another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.serving.gpu import memory_used_gib, visible_devices
from pytest_specdec.serving.host import Host, read_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.serving.gpu import DeviceInfo


class Machine:
    """The one that pytest runs on."""

    def devices(self, environ: Mapping[str, str] | None = None) -> tuple[DeviceInfo, ...]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` shows, in its order; none without a GPU.

        Args:
            environ: Default: the process's own.
        """
        return visible_devices(environ)

    def memory_used_gib(self, indices: Sequence[int]) -> dict[int, float]:
        """Memory in use by NVML's index, of the devices that tell."""
        return memory_used_gib(indices)

    def host(self) -> Host:
        """CPU, cores, memory."""
        return read_host()
