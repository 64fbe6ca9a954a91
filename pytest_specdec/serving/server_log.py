"""The log file of one launch: whether it grows, which phase of vLLM's start it shows, and its lines.

vLLM writes to a file, never to a pipe: a full pipe would block it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_READ_AT_MOST = 4 * 1024 * 1024
"""Of a log that is quoted: its end says why the server stopped, and nobody waits for gigabytes to be searched."""
_START_AT_MOST = 1024 * 1024
"""Of that, for the start, where the settings are stated."""
GROWS_TO = 1024**3
"""Bytes. A server that has written so much into its log is ended: it would fill the disk, and whatever repeats itself costs it time."""

_PHASES = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r"Downloading|Fetching \d+ files", "downloading the model"),
        (r"Initializing a V1 LLM engine", "starting the engine"),
        (r"Starting to load model|Loading safetensors", "loading weights"),
        (r"Loading drafter model", "loading the draft"),
        (r"Model loading took|Loading weights took", "profiling memory"),
        (
            r"Start compiling|Dynamo bytecode transform|Compiling a graph|Compile and warming up|for the compilation",
            "compiling",
        ),
        (r"KV cache size", "warming up"),
        (r"Capturing .*CUDA graph", "capturing CUDA graphs"),
        (r"Graph capturing finished", "warming up"),
        (r"init engine \(profile", "starting the HTTP server"),
        (r"Application startup complete", "waiting for the first token"),
    )
)
"""Pieces of vLLM's own log lines (0.20 to 0.33) and the phase that each begins."""


def plain_lines(raw: bytes) -> list[str]:
    """Lines as a person reads them: no colours, of a rewritten progress bar only its last state, no empty lines."""
    text = _ANSI.sub("", raw.decode(errors="replace")).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    return [line for line in lines if line]


class ServerLog:
    """Follows a log from where it stands now: what an earlier launch wrote into the same file is not ours.

    Args:
        path: The file; it need not exist yet.
        clock: Seconds of a monotonic clock.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.phase = "starting"
        self._clock = clock
        self._start = self._size()
        self._read_up_to = self._start
        self._grew_at = self._phase_began = clock()
        self._phases_s: dict[str, float] = {}

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def follow(self) -> None:
        """Read what is new, and update :attr:`phase` and :attr:`silent_s`."""
        new, self._read_up_to = self._read(self._read_up_to)
        if not new:
            return
        self._grew_at = self._clock()
        before = self.phases_s
        for line in plain_lines(new):
            for pattern, phase in _PHASES:
                if pattern.search(line):
                    self.phase = phase
        self._phases_s, self._phase_began = before, self._grew_at

    @property
    def phases_s(self) -> dict[str, float]:
        """Seconds that each phase has lasted, in the order of their first appearance, as far as looks at the log can tell."""
        lasted = self._clock() - self._phase_began
        return self._phases_s | {self.phase: self._phases_s.get(self.phase, 0.0) + lasted}

    @property
    def silent_s(self) -> float:
        """Seconds since the log last grew, as of the last :meth:`follow`."""
        return self._clock() - self._grew_at

    @property
    def overgrown(self) -> bool:
        """Whether this launch has written more than :data:`GROWS_TO`."""
        return self._size() - self._start > GROWS_TO

    def lines(self) -> list[str]:
        """What this launch has written; of a long log its start and its end."""
        if self._size() - self._start <= _READ_AT_MOST:
            return plain_lines(self._read(self._start)[0])
        start, _ = self._read(self._start, skip=False, at_most=_START_AT_MOST)
        end, _ = self._read(self._start, at_most=_READ_AT_MOST - _START_AT_MOST)
        return [*plain_lines(start)[:-1], *plain_lines(end)]  # the last line of the start is cut, its figures wrong

    def _read(self, offset: int, *, skip: bool = True, at_most: int = _READ_AT_MOST) -> tuple[bytes, int]:
        """What follows ``offset``, and where reading ended; of more than ``at_most`` bytes the last ones, or the first ones."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(offset, self._size() - at_most) if skip else offset)
                return file.read(at_most), file.tell()
        except FileNotFoundError:
            return b"", offset
