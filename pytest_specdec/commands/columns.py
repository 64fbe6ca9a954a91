"""How wide commands write."""

from __future__ import annotations

import shutil
import sys

_UNLIMITED = 10_000


def columns() -> int:
    """Those of the terminal; in a pipe or a file every row stays whole, so that it can be searched for."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
