"""Result files on disk: written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.results import ResultDocument

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_result(document: ResultDocument, path: str | Path, secrets: Sequence[str] = ()) -> None:
    """Replace the file at ``path`` in one step; its folder is created.

    A reader sees the old file or the new one. When writing fails the old file stays, and nothing half-written.

    Args:
        document: What to write.
        path: Where.
        secrets: Values that must not get into the file, see :meth:`ResultDocument.to_json`.

    Raises:
        ResultFileError: The disk is full, the folder cannot be written to, or a number is not finite.
    """
    replace_file(Path(path), document.to_json(secrets) + "\n", elsewhere="choose another one with --specdec-dir")


def replace_file(path: Path, text: str, *, mode: int = 0o666, elsewhere: str = "choose another one") -> None:
    """Write a file whole or not at all; its folder is created. What is no file, such as ``/dev/stdout``, is written to as it is.

    Args:
        path: The file.
        text: What it shall hold.
        mode: Its permissions before the umask.
        elsewhere: How another folder is chosen.

    Raises:
        ResultFileError: The disk is full, or the folder cannot be written to.
    """
    content = text.encode(errors="replace")
    # Beside its target, since a rename is atomic only within one file system.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        if _is_no_file(path):
            number = _open_already(path)
            with path.open("wb") if number is None else os.fdopen(os.dup(number), "wb") as file:
                file.write(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        try:
            with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)  # noqa: PTH105 - the one call whose atomicity matters, by its own name
        finally:
            partial.unlink(missing_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ResultFileError(
            "cannot be written: its folder is a file and not a folder",
            where=os.path.realpath(path),
            remedy=f"Move that file away, or {elsewhere}.",
        ) from None
    except OSError as error:
        raise ResultFileError(
            f"cannot be written: {error.strerror or error}",
            where=os.path.realpath(path),
            remedy=f"Free space or make the folder writable, or {elsewhere}.",
        ) from error


def _is_no_file(path: Path) -> bool:
    """A device, a pipe, or a name that leads to an open file: to put a file in its place would take it from everybody."""
    folder = os.path.realpath(path.parent)
    return (
        folder == "/dev" or folder.startswith("/proc/") or (path.exists() and not path.is_file() and not path.is_dir())
    )


def _open_already(path: Path) -> int | None:
    """Which of this process's open files a name stands for: opened a second time it would be written to from its start."""
    folder = os.path.realpath(path.parent)
    if folder == f"/proc/{os.getpid()}/fd" and path.name.isdecimal():
        return int(path.name)
    return {"stdout": 1, "stderr": 2}.get(path.name) if folder == "/dev" else None


def _remove_abandoned(path: Path) -> None:
    """What runs that were killed while they wrote have left beside the file."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        writer = partial.name.split(".")[-2]
        if writer.isdigit() and not Path("/proc", writer).exists():
            partial.unlink(missing_ok=True)


def read_result(path: str | Path) -> ResultDocument:
    """Read a result file, or the ``results.json`` of a result folder.

    Raises:
        ResultFileError: Missing, unreadable, damaged, or of a newer schema than this version reads.
    """
    path = Path(path)
    if path.is_dir():
        path /= "results.json"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultFileError(
            f"cannot be read: {error.strerror or error}",
            where=str(path),
            remedy="Give the results.json that a session wrote, by default .specdec/results.json.",
        ) from error
    return ResultDocument.from_json(content, where=str(path))
