"""One run at a time per device: two vLLM start-ups on one GPU profile each other's memory and fail.

The lock is an ``flock`` on a file in the machine's temporary folder, one file per device, or ``cpu``. The supervisors of the
servers hold it too, so that the next run starts only when the servers of a killed one are gone; the kernel drops it with
the last of them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.file_lock import lock_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class DeviceLocks:
    """The locks of this run; take them all at once, so that two runs cannot each hold what the other waits for.

    Args:
        directory: Where the lock files are; default: a folder of this user's in the temporary folder.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path(tempfile.gettempdir()) / f"pytest-specdec-{os.getuid()}"
        self._held: list[int] = []

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Open files that carry the locks."""
        return tuple(self._held)

    def take(self, devices: Sequence[int], *, timeout_s: float, progress: Callable[[str], None]) -> None:
        """Lock the devices, or ``cpu`` when there are none. Does nothing when locks are held already.

        Raises:
            LaunchError: Another run still holds one after ``timeout_s``, or there is nowhere to put lock files.
        """
        if self._held:
            return
        deadline = time.monotonic() + timeout_s
        try:
            self._make_directory()
            for name in [f"device-{index}" for index in sorted(set(devices))] or ["cpu"]:
                descriptor = lock_file(
                    self._directory / f"{name}.lock",
                    name.replace("-", " "),
                    timeout_s=timeout_s,
                    deadline=deadline,
                    progress=progress,
                    remedy="servers of a run that was killed end by themselves within seconds.",
                )
                self._held.append(descriptor)
        except OSError as error:
            self.release()
            raise LaunchError(
                f"the folder for device locks cannot be written to: {error.strerror or error}",
                where=str(self._directory),
                remedy="Free space there, or set TMPDIR to a folder of yours.",
            ) from None
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the locks back; a server that is kept running goes on holding them."""
        while self._held:
            os.close(self._held.pop())

    def _make_directory(self) -> None:
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(mode=0o700, parents=True)
        if self._directory.stat().st_uid != os.getuid():
            raise LaunchError(
                "the folder for device locks belongs to another user",
                where=str(self._directory),
                remedy="Set TMPDIR to a folder of yours.",
            )
