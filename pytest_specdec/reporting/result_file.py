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
    replace_file(Path(path), document.to_json(secrets) + "\n")


def replace_file(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a file whole or not at all; its folder is created. ``mode`` are its permissions before the umask.

    Raises:
        ResultFileError: The disk is full, or the folder cannot be written to.
    """
    content = text.encode(errors="replace")
    # Beside its target, since a rename is atomic only within one file system.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
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
            remedy="Move that file away, or choose another folder with --specdec-dir.",
        ) from None
    except OSError as error:
        raise ResultFileError(
            f"cannot be written: {error.strerror or error}",
            where=os.path.realpath(path),
            remedy="Free space or make the folder writable, or choose another one with --specdec-dir.",
        ) from error


def _remove_abandoned(path: Path) -> None:
    """What runs that were killed while they wrote have left beside the file."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        writer = partial.name.split(".")[-2]
        if writer.isdigit() and not Path("/proc", writer).exists():
            partial.unlink(missing_ok=True)


def read_result(path: str | Path) -> ResultDocument:
    """Read a result file.

    Raises:
        ResultFileError: Missing, unreadable, damaged, or of a newer schema than this version reads.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ResultFileError(
            f"cannot be read: {error.strerror or error}",
            where=str(path),
            remedy="Give the results.json that a session wrote, by default .specdec/results.json.",
        ) from error
    return ResultDocument.from_json(content, where=str(path))
