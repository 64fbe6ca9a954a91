"""What the sources of the vLLM that a config would start hold, asked of its interpreter without importing vLLM."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.command import command_of
from pytest_specdec.serving.versions import interpreter_of

if TYPE_CHECKING:
    from pytest_specdec.core.config import SpecConfig

_TIMEOUT_S = 20.0
_PATHS = {"PATH", "PYTHONPATH"}
"""Variables of a config with which another vLLM may run than the one that is asked."""


def sources_behind(config: SpecConfig) -> dict[str, Any]:
    """``flags`` and ``keys`` as :mod:`pytest_specdec.serving.source_reader` prints them; empty where it cannot be told which vLLM will run.

    That is so with wrappers, containers, search paths of the config's own, and a ``vllm`` in the config's folder.
    """
    try:
        command = command_of(config)
    except LaunchError:
        return {}
    interpreter = interpreter_of(command)
    nearer = config.command is not None and (config.folder / "vllm").exists()
    if interpreter is None or nearer or _PATHS & config.env.keys():
        return {}
    # Options of Python's own (-I, -S) say where it looks for packages.
    return _ask(command[: command.index("-m")] if interpreter == command[0] else (interpreter,))


@cache
def _ask(python: tuple[str, ...]) -> dict[str, Any]:
    program = Path(__file__).with_name("source_reader.py").read_text(encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user chose to run vLLM with
            [*python, "-c", program], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}
    return found
