"""Ctrl-C that waits until results are written.

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


def interrupts_arrive_here() -> bool:
    """Whether Python's own handler is in force; somebody else's is left alone."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
