"""What the output goes to: how many columns it has, and whether a line on it can be written anew."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pytest

_LEAST = 40
"""Columns; tables and sentences need as many to be read at all."""


def reporter_of(config: pytest.Config) -> pytest.TerminalReporter | None:
    """Looked up when something is written: pytest registers it after plugins are configured, and workers of xdist have none."""
    return cast("pytest.TerminalReporter | None", config.pluginmanager.getplugin("terminalreporter"))


def width_of(config: pytest.Config) -> int:
    """Columns, as pytest knows them: the terminal's, those in ``COLUMNS``, or 80."""
    known = reporter_of(config) is not None
    columns = config.get_terminal_writer().fullwidth if known else shutil.get_terminal_size().columns
    return max(_LEAST, columns)


def rewritable(config: pytest.Config) -> bool:
    """Whether a person watches a line that changes.

    Not in a file or a pipe; not on a dumb terminal, which shows the codes for it as text; not in CI, whose logs keep every state of the
    line although some of them run their jobs on a terminal.
    """
    reporter = reporter_of(config)
    if reporter is None or not reporter.isatty:
        return False
    return os.environ.get("TERM") != "dumb" and not (os.environ.get("CI") or os.environ.get("BUILD_NUMBER"))
