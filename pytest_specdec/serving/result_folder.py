"""The folder of logs and results: one run at a time, and known to be writable before a server is started."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.file_lock import lock_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ELSEWHERE = "give this run a folder of its own with --specdec-dir."
_FULL_BYTES = 1024**2


class ResultFolder:
    """Taken by a run before its first server; a second run with the same folder waits for it.

    Args:
        path: The folder; created when it is taken.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    def take(self, *, timeout_s: float, progress: Callable[[str], None]) -> None:
        """Lock the folder. Does nothing when it is taken already.

        Raises:
            LaunchError: It cannot be written to, or another run still uses it after ``timeout_s``.
        """
        if self._lock is not None:
            return
        lock = self._path / ".lock"
        created = [path for path in (lock, self._path, *self._path.parents) if not os.path.lexists(path)]
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = lock_file(
                lock,
                f"the folder {self._path.name}",
                timeout_s=timeout_s,
                deadline=time.monotonic() + timeout_s,
                progress=progress,
                remedy=f"or {ELSEWHERE}",
                mode=0o666,  # a folder that several people share
            )
        except OSError as error:
            _take_back(created)
            raise _cannot_be_written(self._path, error) from None

    def release(self) -> None:
        """Let another run take it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def create_log(path: Path) -> None:
    """Create the log of a launch, and its folder.

    Raises:
        LaunchError: It cannot be written to: no server is started whose log would be lost.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise _cannot_be_written(path, error) from None


def is_full(folder: Path) -> bool:
    """Whether there is no room for the end of a log."""
    try:
        return shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return False


def _take_back(created: Sequence[Path]) -> None:
    """Where nothing could be written, nothing is left: neither an empty lock nor the folders made for it."""
    with contextlib.suppress(OSError):
        for path in created:
            if path.is_dir():
                path.rmdir()
            elif path.exists() and not path.stat().st_size:
                path.unlink()


def _cannot_be_written(path: Path, error: OSError) -> LaunchError:
    path = Path(os.path.realpath(path))
    file = next((part for part in (path, *path.parents) if part.is_file() and part.suffix != ".log"), None)
    if file is not None:
        return LaunchError(
            "the folder for logs and results is a file and not a folder",
            where=str(file),
            remedy=f"Move it away, or {ELSEWHERE}",
        )
    return LaunchError(
        f"the folder for logs and results cannot be written to: {error.strerror or error}",
        where=str(path),
        remedy=f"Free space or make it writable, or {ELSEWHERE}",
    )
