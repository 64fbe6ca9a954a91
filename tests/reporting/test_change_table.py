"""Two measurements side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.saved import Saved
from pytest_specdec.reporting.change_table import change_lines
from tests.core.comparison_builder import build_comparison


@pytest.mark.parametrize(
    ("then_ms", "now_ms", "shown"), [(4.0, 4.001, "+0.0"), (4.001, 4.0, "+0.0"), (4.0, 4.4, "+10.0")]
)
def test_what_rounds_to_nothing_is_not_below_nothing(then_ms: float, now_ms: float, shown: str) -> None:
    now, then = (build_comparison(tpot_spec_ms=ms) for ms in (now_ms, then_ms))
    lines = change_lines(now, Saved("before", replace(then, config_id=now.config_id)))
    assert f"{shown} %" in next(line for line in lines if line.lstrip().startswith("TPOT"))
    assert not any("-0.0" in line for line in lines)
