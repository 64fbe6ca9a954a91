"""The advice at the end of a run, as text that fits 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.recommendation import Recommendation

_WIDTH = 80


def advice_lines(recommendations: Iterable[Recommendation]) -> list[str]:
    """One paragraph for every config and workload."""
    return [
        line
        for one in recommendations
        for line in textwrap.wrap(
            f"advice for {one.config_id}, {one.workload}: {one.text}",
            _WIDTH,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    ]
