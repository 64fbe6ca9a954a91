"""Ctrl-C that waits until results are written, and SIGTERM that ends a run as Ctrl-C does.

Imported before anything can be interrupted, and of itself almost nothing: a SIGINT in the middle of an import leaves a module (such as
asyncio) that cannot be imported any more, and the end of a run must not stumble over that.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self


TERMINATED = 143
"""The exit status that shells show for what SIGTERM has ended, 128 + 15."""


class LateInterrupts:
    """Within it SIGINT is taken note of and nothing else happens, but where it is let through.

    It holds for what is short and must not be lost. Another program's handler of the signal, and threads, are left alone.
    """

    def __init__(self) -> None:
        self.arrived = False
        """Whether there was one."""
        self._let_through = False
        self._installed = False

    def __enter__(self) -> Self:
        self._installed = interrupts_arrive_here()
        if self._installed:
            signal.signal(signal.SIGINT, self._take_note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Within it the first SIGINT is a KeyboardInterrupt, as anywhere."""
        self._let_through = True
        try:
            yield
        finally:
            self._let_through = False

    def _take_note(self, *_: object) -> None:
        self.arrived = True
        if self._let_through:
            self._let_through = False
            raise KeyboardInterrupt


class Terminations:
    """Makes SIGTERM an interrupt, once: schedulers, ``timeout`` and CI end a run with it, and what was measured shall be written.

    A handler that another program has set is left alone, and so are threads. Further SIGTERMs are not looked at: ``timeout`` sends two.
    """

    def __init__(self) -> None:
        self.arrived = False
        """Whether there was one."""
        self.finishing = False
        """From here on it is only taken note of, where no handler of interrupts decides."""
        self._installed = False

    def begin(self) -> None:
        """From here on there is something to lose."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._interrupt)
            self._installed = True

    def end(self) -> None:
        """All is written: SIGTERM ends the process at once again."""
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._installed = False

    def _interrupt(self, *_: object) -> None:
        if self.arrived:
            return
        self.arrived = True
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(
                signal.SIGINT
            )  # whose handler knows what to do here: asyncio's cancels, LateInterrupts waits
        elif not self.finishing:  # jobs in the background of a shell script ignore SIGINT
            raise KeyboardInterrupt


def interrupts_arrive_here() -> bool:
    """Whether Python's own handler is in force; somebody else's is left alone."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
