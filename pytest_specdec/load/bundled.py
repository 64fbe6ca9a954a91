"""The workloads that come with the plugin."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def bundled_workloads() -> dict[str, Path]:
    """Name to file."""
    found = (files("pytest_specdec") / "workloads").iterdir()
    return {path.name.removesuffix(".jsonl"): Path(str(path)) for path in found if path.name.endswith(".jsonl")}
