"""What a person sees while servers load and requests run.

Where a line can be written anew there is one that changes; elsewhere (CI logs) each phase gets a line of its own, and a long one
says once a minute how far it is: some CI systems end jobs that are silent for ten.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from pytest_specdec.reporting.layout import fitted, printable
from pytest_specdec.screen import reporter_of, rewritable, width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Progress(Protocol):
    """Where long work tells how far it is."""

    def phase(self, text: str) -> None:
        """A new phase has begun."""

    def detail(self, text: str) -> None:
        """Something within the phase moved on; called often."""

    def close(self) -> None:
        """The work is over; leave a clean line."""


class SilentProgress:
    """For workers of pytest-xdist, ``-qq`` and tests."""

    def phase(self, text: str) -> None:
        """Ignored."""

    def detail(self, text: str) -> None:
        """Ignored."""

    def close(self) -> None:
        """Nothing to do."""


class TerminalProgress:
    """Writes through pytest's terminal, around its output capturing."""

    _REDRAW_S = 0.2
    _SIGN_OF_LIFE_S = 60.0

    def __init__(self, config: pytest.Config, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._phase = ""
        self._written_at = -1.0
        self._open = False
        self._began_at = 0.0

    def phase(self, text: str) -> None:
        """Draw it, or print it on a line of its own."""
        if text == self._phase:
            return
        self._phase, self._began_at = text, self._clock()
        self._say(text)

    def detail(self, text: str) -> None:
        """Say it a few times a second on a line that changes, once a minute elsewhere."""
        now = self._clock()
        if now - self._written_at >= (self._REDRAW_S if rewritable(self._config) else self._SIGN_OF_LIFE_S):
            self._say(f"{self._phase}: {text} ({now - self._began_at:.0f} s)")

    def close(self) -> None:
        """Wipe the drawn line."""
        if self._open:
            self._write("\r\x1b[K")
        self._open, self._phase = False, ""

    def _say(self, text: str) -> None:
        self._written_at = self._clock()
        line, width = f"specdec: {text}", width_of(self._config)
        if rewritable(self._config):
            # The last column stays empty: with it, many terminals go on to the next line, which would then be wiped instead.
            self._write(f"\r\x1b[K{printable(line)[: width - 1]}")
            self._open = True
        else:
            self._write("".join(f"{piece}\n" for piece in fitted([line], width)))

    def _write(self, text: str) -> None:
        reporter = reporter_of(self._config)
        if reporter is None:
            return
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            if not self._open:
                # End the line on which pytest counts the file's tests; it starts a new one by itself.
                reporter.ensure_newline()
            self._config.get_terminal_writer().write(text, flush=True)
