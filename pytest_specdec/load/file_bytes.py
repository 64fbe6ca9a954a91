"""A workload's file, read once from start to end in pieces, with its checksum and the line that each piece is on."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 65536
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FileBytes:
    """The bytes of one file without a byte-order mark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        self._offset = 0

    def sha256(self) -> str:
        """Of everything read so far, a byte-order mark included."""
        return self._hash.hexdigest()

    def lines(self) -> Iterator[tuple[int, str]]:
        r"""Number from 1 and text of each line, its end included. Only ``\n`` ends a line: U+2028 may stand in a string.

        Raises:
            WorkloadError: The file cannot be read, or is not UTF-8.
        """
        with reading(self.path), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, self._decoded(self._taken(line), number)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """The number of its line and each piece of at most one line and 64 KiB, as bytes.

        Raises:
            WorkloadError: The file cannot be read.
        """
        number = 1
        with reading(self.path), self.path.open("rb") as file:
            while piece := file.readline(_PIECE):
                yield number, self._taken(piece)
                number += piece.endswith(b"\n")

    def _taken(self, piece: bytes) -> bytes:
        self._hash.update(piece)
        start = self._offset
        self._offset += len(piece)
        return piece.removeprefix(_BYTE_ORDER_MARK) if start == 0 else piece

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(f"{self.path}:{number}", line[error.start], self._offset - len(line) + error.start) from None


def not_utf8(where: str, byte: int, offset: int) -> WorkloadError:
    """The error about a byte that cannot stand in UTF-8."""
    return WorkloadError(
        f"not UTF-8: byte 0x{byte:02x} at offset {offset}", where=where, remedy="Save the workload as UTF-8."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the system says about a file into an error that says what to do.

    Raises:
        WorkloadError: The file is missing, a directory or unreadable.
    """
    try:
        yield
    except FileNotFoundError:
        raise WorkloadError("no such file", where=str(path), remedy="Check the workload's path.") from None
    except IsADirectoryError:
        raise WorkloadError(
            "a directory, not a file", where=str(path), remedy="Name the file that holds the prompts."
        ) from None
    except OSError as error:
        raise WorkloadError(
            f"cannot be read: {error.strerror or error}", where=str(path), remedy="Check its permissions."
        ) from None
