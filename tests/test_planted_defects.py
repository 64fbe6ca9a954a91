"""The defects that ``benchmarks/planted_defects.py`` plants must still have a line to be planted in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("planted_defects", ROOT / "benchmarks" / "planted_defects.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


DEFECTS = _script().DEFECTS


def test_there_are_ten() -> None:
    assert len({defect.name for defect in DEFECTS}) == 10


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_its_line_is_there_once_and_would_change(defect: Any) -> None:
    text = (ROOT / "pytest_specdec" / defect.file).read_text()
    assert text.count(defect.right) == 1
    assert defect.wrong not in text
