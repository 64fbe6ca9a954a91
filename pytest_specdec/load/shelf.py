"""Where the bytes of answers lie that are complete and not yet looked at, so that a long run does not fill the memory with text."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_specdec.load.answer import Transfer
    from pytest_specdec.load.connection import Reads

IN_MEMORY_BYTES = 64 << 20
"""What complete answers may take before the next ones go to the file: far more than gates have, and little beside a server."""


class Shelved(NamedTuple):
    """An answer in the file."""

    shelf: Shelf
    start: int
    size: int

    def reads(self) -> Reads:
        """The same as they were put there."""
        return self.shelf.reads(self.start, self.size)


class Shelf:
    """For one window. The file has no name and ends with this: what servers say is nobody else's business."""

    def __init__(self) -> None:
        self._bytes = 0
        self._file: int | None = None
        self._end = 0

    def put(self, transfer: Transfer) -> None:
        """Takes the reads of a complete answer where there are many already; where no file can be written they stay where they are."""
        self._bytes += sum(len(piece) for _, piece in transfer.reads)
        if self._bytes <= IN_MEMORY_BYTES:
            return
        data = pickle.dumps(transfer.reads)
        with contextlib.suppress(OSError):
            if os.pwrite(self._opened(), data, self._end) < len(data):
                return  # the disk is full
            transfer.shelved = Shelved(self, self._end, len(data))
            transfer.reads = []
            self._end += len(data)

    def reads(self, start: int, size: int) -> Reads:
        """What was put there."""
        reads: Reads = pickle.loads(os.pread(self._opened(), size, start))  # noqa: S301 - written above
        return reads

    def _opened(self) -> int:
        if self._file is None:
            with tempfile.TemporaryFile() as file:
                self._file = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._file)
        return self._file
