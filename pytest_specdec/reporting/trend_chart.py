"""Series of saved runs as one SVG file. Needs matplotlib (``pytest-specdec[report]``)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from pytest_specdec.core.regression import UNITS
from pytest_specdec.core.slo_values import REGRESSIONS
from pytest_specdec.reporting.change_table import PART_NAMES
from pytest_specdec.reporting.history_table import series_title
from pytest_specdec.reporting.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from pytest_specdec.core.trend import Series

_WIDTH_IN, _HEIGHT_IN = 9.0, 2.2
_LABELS = 12
"""So many runs get a label below the chart; of more, every second or third one does."""


def trend_svg(series: Sequence[Series]) -> str:
    """Every figure of every series against the runs, with intervals; a dashed line where its level has changed.

    Args:
        series: At least one, with one point at least.
    """
    shown = [(one, part) for one in series for part in REGRESSIONS if any(point.figures[part] for point in one.points)]
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "trend",
        "font.size": 9.5,
        "font.family": "sans-serif",
        "text.color": LIGHT["ink"],
        "axes.labelcolor": LIGHT["ink"],
        "axes.edgecolor": LIGHT["muted"],
        "xtick.color": LIGHT["ink"],
        "ytick.color": LIGHT["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN * max(1, len(shown))), layout="constrained")
        for axes, (one, part) in zip(figure.subplots(max(1, len(shown)), squeeze=False)[:, 0], shown, strict=False):
            _draw(axes, one, part)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", facecolor=LIGHT["paper"], metadata={"Date": None})
    return buffer.getvalue()


def _draw(axes: Axes, series: Series, part: str) -> None:
    scale, unit = (100, "%") if UNITS[part] == "fraction" else (1, UNITS[part])
    figures = [point.figures[part] for point in series.points]
    values = np.array([np.nan if one is None else scale * one.value for one in figures])
    ends = np.array(
        [
            (np.nan, np.nan)
            if one is None
            else tuple(scale * (one.value if end is None else end) for end in (one.low, one.high))
            for one in figures
        ]
    )
    places = np.arange(len(values))
    axes.errorbar(places, values, yerr=np.abs(ends.T - values), fmt="s-", color=LIGHT["spec"], capsize=3, markersize=4)
    if (found := series.change(part)) is not None:
        axes.axvline(series.points.index(found[0]) - 0.5, color=LIGHT["fail"], linestyle="--")
    every = max(1, -(-len(values) // _LABELS))
    labels = [point.saved_as or point.commit or point.when[:10] for point in series.points]
    axes.set_xticks(places[::every], labels[::every], rotation=30, ha="right")
    axes.set_title(f"{PART_NAMES[part]}: {series_title(series)}", fontsize=9.5, loc="left")
    axes.set_ylabel(unit)
