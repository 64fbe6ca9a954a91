"""Streams timed by the schedule of the fake server that sent them: figures and verdicts do not depend on how busy this machine is.

What the plugin makes of late bytes, late clients and buffered streams is tested in tests/core and tests/load.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import stream_validity
from pytest_specdec.load import observed, warmup
from pytest_specdec.load.answer import read_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.answer import Transfer

STAMPED = {"stamped": True}
"""Knob of the fake server."""
ON_SCHEDULE = f"""
import sys

sys.path.append({str(Path(__file__).parents[1])!r})

from tests import exact_times

exact_times.install()
"""
"""A plugin, or a conftest, that does so in another process."""
_STAMP = re.compile(rb": due ([\d.]+) ms\n")


def install(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Have answers timed by their stamps; ``replace`` is ``monkeypatch.setattr`` where that is to end with a test."""
    for module in (observed, warmup):
        replace(module, "read_answer", read_on_schedule)
    replace(stream_validity, "LAG_S", 10.0)  # a late client is of no consequence then


def read_on_schedule(transfer: Transfer, *, window_start: float) -> RequestSample:
    """As :func:`read_answer`, every chunk at the time that its stamp says; without stamps, as it came."""
    before, *chunks = _STAMP.split(b"".join(piece for _, piece in transfer.reads))
    if chunks:
        timed = [
            (transfer.sent + float(due) / 1000, chunk) for due, chunk in zip(chunks[::2], chunks[1::2], strict=True)
        ]
        transfer.reads[:] = [(timed[0][0], before), *timed]
    return read_answer(transfer, window_start=window_start)
