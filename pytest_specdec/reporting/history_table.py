"""Series of saved runs as text: a row for each run, what is usual from run to run, and hints at changes of level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.regression import UNITS, figure_text
from pytest_specdec.core.slo_values import REGRESSIONS
from pytest_specdec.reporting.change_table import PART_NAMES
from pytest_specdec.reporting.layout import WIDE, grid

if TYPE_CHECKING:
    from pytest_specdec.core.trend import Point, Series


def series_title(series: Series) -> str:
    """``eagle3, chat, concurrency 8 (eagle3, K 2, NVIDIA H200)``."""
    known = series.conditions
    inside = [known["method"], f"K {known['num_speculative_tokens']}", known["device"]]
    shown = ", ".join(str(one) for one in inside if one is not None and one != "K None")
    return f"{series.config_id}, {series.workload}, {series.load} ({shown})"


def series_lines(series: Series, *, width: int = WIDE) -> list[str]:
    """The table and the hints of one series."""
    heading = ("run (UTC)", "commit", "branch", "name", "verdict", *(PART_NAMES[part] for part in REGRESSIONS))
    lines = [series_title(series), *grid([heading, *map(_row, series.points)], width, fold=5, indent=2)]
    usual = [
        f"{PART_NAMES[part]} {100 * step:.1f} %"
        for part in REGRESSIONS
        if part != "tpot_gain" and (step := series.usual_step(part)) is not None
    ]
    if usual:
        lines.append(f"  usual change from one run to the next (median): {', '.join(usual)}")
    return [*lines, *hint_lines(series)]


def hint_lines(series: Series) -> list[str]:
    """Where a figure has changed its level."""
    lines = []
    for part in REGRESSIONS:
        if (found := series.change(part)) is None:
            continue
        point, change = found
        scale, unit = (100, " %") if UNITS[part] == "fraction" else (1, f" {UNITS[part]}")
        what = " ".join(filter(None, (point.commit, point.saved_as))) or point.branch
        lines.append(
            f"  hint: {PART_NAMES[part]} is on another level since {point.when}{f' ({what})' if what else ''}: "
            f"{scale * change.before:.3g} before, {scale * change.after:.3g}{unit} since (medians; p = {change.p_value:.2g})"
        )
    return lines


def _row(point: Point) -> tuple[str, ...]:
    figures = ("-" if figure is None else figure_text(figure, UNITS[part]) for part, figure in point.figures.items())
    return (point.when, point.commit or "-", point.branch or "-", point.saved_as or "-", point.judgement, *figures)
