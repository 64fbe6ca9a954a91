"""Ctrl-C while requests run: it cancels a coroutine, which cleans up."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, TypeVar

from pytest_specdec.load.late_interrupts import interrupts_arrive_here

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


def run_cancellable(work: Coroutine[None, None, _T]) -> _T:
    """Like ``asyncio.run`` of Python 3.11 and later, on 3.10 too: on SIGINT the work is cancelled and cleans up.

    Raises:
        KeyboardInterrupt: After the clean-up.
    """
    if sys.version_info >= (3, 11) or not interrupts_arrive_here():
        return asyncio.run(work)
    interrupted = False

    async def main() -> _T | None:
        nonlocal interrupted
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            return await task
        except asyncio.CancelledError:
            if interrupted:
                return None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    result = asyncio.run(main())
    if interrupted:
        raise KeyboardInterrupt
    return result  # type: ignore[return-value]  # None only after an interrupt
