"""Every kind of corrupted output is found, and nothing on clean servers: one model here, twenty in the benchmark."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "planted_corruption.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("planted_corruption", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES: list[Any] = [case for case in load().CASES if "1000 prompts" not in case.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_planted_is_found_and_nothing_else(case: Any) -> None:
    assert case.judge(4, case.knobs) == ("ok" if case.name.startswith("clean") else "FAIL")
