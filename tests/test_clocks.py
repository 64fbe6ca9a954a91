"""The wall clock can be set; it says when something happened, and never how long it took."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_specdec"
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
RECORDS_DATES = {
    "load/window.py": 1,
    **dict.fromkeys(
        ["core/saved.py", "core/trend.py", "reporting/history_folder.py"], 1
    ),  # no read: a date that was recorded
    "exchange/vllm_bench.py": 2,  # likewise
    "reporting/report_view.py": 2,  # likewise
    "session.py": 1,
    "testing/engine.py": 2,
    "testing/http_api.py": 2,
}
"""Modules that record when something happened, and how often each asks for the time of day."""
WALL_CLOCKS = {"time", "time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime"}


def wall_clock_reads(tree: ast.AST) -> int:
    """How often ``time.time`` and its like, or anything of ``datetime``, is used."""
    reads = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            reads += node.attr in WALL_CLOCKS
        elif isinstance(node, ast.ImportFrom) and node.module in {"time", "datetime"}:
            reads += len(node.names)
        elif isinstance(node, ast.Import):
            reads += sum(alias.name == "datetime" for alias in node.names)
    return reads


@pytest.mark.parametrize("module", MODULES)
def test_the_wall_clock_is_read_only_where_a_date_is_recorded(module: str) -> None:
    assert wall_clock_reads(ast.parse((PACKAGE / module).read_text())) == RECORDS_DATES.get(module, 0)


@pytest.mark.parametrize(
    "code",
    ["import time\nstarted = time.time()", "from time import time", "from datetime import datetime", "import datetime"],
)
def test_every_way_to_read_it_is_seen(code: str) -> None:
    assert wall_clock_reads(ast.parse(code)) == 1
