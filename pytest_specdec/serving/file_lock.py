"""A lock that the kernel drops with the last process that holds it: ``flock`` on a file that holds the holder's process id."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POLL_S = 0.25
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""A file system that knows no locks: some network and user-space ones."""


def lock_file(
    path: Path,
    what: str,
    *,
    timeout_s: float,
    deadline: float,
    progress: Callable[[str], None],
    remedy: str,
    mode: int = 0o600,
) -> int:
    """Lock a file, created if need be, waiting for whoever holds it.

    Args:
        path: The file.
        what: What holding it means, in words: ``device 0``.
        timeout_s: Most seconds to wait, for the message.
        deadline: When they are over, by ``time.monotonic()``.
        progress: Told who is waited for.
        remedy: For the error: what else can be done.
        mode: Of a new file, before the umask.

    Returns:
        The open file; closing it gives the lock back.

    Raises:
        LaunchError: Another run still holds it.
        OSError: The file cannot be created or written to.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        while not _lock(descriptor):
            who = f"holds {what} (pid {_holder(descriptor)})"
            if time.monotonic() > deadline:
                raise LaunchError(  # noqa: TRY301 - whatever is raised here, the file must be closed
                    f"another run still {who} after {timeout_s:.0f} s",
                    where=str(path),
                    remedy=f"Wait for it or end it; {remedy}",
                )
            progress(f"waiting for another run that {who}")
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno in _NO_LOCKS_HERE
    return True
