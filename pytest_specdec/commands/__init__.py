"""The subcommands of ``pytest-specdec``, one module each: its arguments (``add_arguments``) and the text that it prints (``run``)."""

from __future__ import annotations
