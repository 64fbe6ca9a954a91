"""Imports flow one way: core knows nobody, serving, load and reporting know core, the session knows them, pytest comes last."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_specdec"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
LAYERS = {
    "core": {"core"},
    "serving": {"core", "serving"},
    "load": {"core", "load"},
    "reporting": {"core", "reporting"},
    "exchange": {"core", "exchange"},
    "commands": {"commands", "core", "serving", "load", "reporting", "exchange"},
    "testing": {"testing"},
    "acceptance": {
        "acceptance",
        "core",
        "serving",
        "load",
        "commands",
        "fixtures",
        "handed",
        "canary_gates",
        "workload_search",
    },
}
WITH_PYTEST = {
    "plugin.py",
    "fixtures.py",
    "marker.py",
    "mark_merging.py",
    "mark_problems.py",
    "options.py",
    "settings.py",
    "gates.py",
    "adding.py",
    "unjudged.py",
    "canary_gates.py",
    "objective_listing.py",
    "gate_records.py",
    "previews.py",
    "dynamic_gates.py",
    "report_hooks.py",
    "history_hooks.py",
    "benchmark_hooks.py",
    "progress.py",
    "screen.py",
    "hookspecs.py",
}
NEVER = {"vllm", "torch"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_flow_downwards(path: Path) -> None:
    names = imports(path)
    roots = {name.partition(".")[0] for name in names}
    assert not roots & NEVER, "vLLM is run, never imported"
    if path.parts[0] != "acceptance" and (path.name not in WITH_PYTEST or len(path.parts) > 1):
        assert "pytest" not in roots, "only the plugin's own modules and the suite that it brings know pytest"
    if len(path.parts) > 1:
        own = {name.split(".")[1] for name in names if name.startswith("pytest_specdec.") and name.count(".") >= 1}
        own = {name for name in own if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()}
        assert own <= LAYERS[path.parts[0]], f"{path} may import {LAYERS[path.parts[0]]} only"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_modules_are_named_for_what_they_know(path: Path) -> None:
    assert not any(word in path.stem for word in ("util", "common", "helper", "misc"))
