"""What a person sees while servers load and requests run.

On a terminal one line is rewritten; elsewhere (CI logs) each phase gets a line of its own and counts are left out.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Protocol, cast

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

    def __init__(self, config: pytest.Config, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._phase = ""
        self._drawn_at = -1.0
        self._open = False
        self._began_at = 0.0

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        # Looked up when something is written: pytest registers it after plugins are configured.
        return cast("pytest.TerminalReporter | None", self._config.pluginmanager.getplugin("terminalreporter"))

    @property
    def _rewrite(self) -> bool:
        # A dumb terminal (editors, some CI logs) shows the codes that rewrite a line as text.
        return self._reporter is not None and bool(self._reporter.isatty) and os.environ.get("TERM") != "dumb"

    def phase(self, text: str) -> None:
        """Draw it, or print it on a line of its own."""
        if text == self._phase:
            return
        self._phase, self._began_at = text, self._clock()
        if self._rewrite:
            self._draw(text)
        else:
            self._write(f"specdec: {text}\n")

    def detail(self, text: str) -> None:
        """Redraw the line on a terminal, a few times a second at most; nothing elsewhere."""
        now = self._clock()
        if self._rewrite and now - self._drawn_at >= self._REDRAW_S:
            self._draw(f"{self._phase}: {text} ({now - self._began_at:.0f} s)")

    def close(self) -> None:
        """Wipe the drawn line."""
        if self._open:
            self._write("\r\x1b[K")
        self._open, self._phase = False, ""

    def _draw(self, text: str) -> None:
        self._drawn_at = self._clock()
        width = max(20, self._config.get_terminal_writer().fullwidth - 1)
        self._write(f"\r\x1b[K{('specdec: ' + text)[:width]}")
        self._open = True

    def _write(self, text: str) -> None:
        reporter = self._reporter
        if reporter is None:
            return
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            if not self._open:
                # End the line on which pytest counts the file's tests; it starts a new one by itself.
                reporter.ensure_newline()
            self._config.get_terminal_writer().write(text, flush=True)
