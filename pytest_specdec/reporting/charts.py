"""The charts of the HTML report: SVG without a colour of its own, so that it follows the page from light to dark.

Series differ in dash, marker or hatching, never in colour alone. Needs matplotlib (``pytest-specdec[report]``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import StringIO

    from matplotlib.axes import Axes

    from pytest_specdec.core.verdict import Estimate

_COLOURS = {"#010101": "var(--ink)", "#020202": "var(--muted)", "#030303": "var(--base)", "#040404": "var(--spec)"}
"""What matplotlib is told, and what the page makes of it."""
_INK, _MUTED, _BASE, _SPEC = _COLOURS
_WIDTH_IN, _HEIGHT_IN = 4.8, 2.7
_LONGEST_LABEL = 40
"""Characters; more would leave the picture. The text below it has the whole name."""


@dataclass(frozen=True)
class Chart:
    """One picture and what it shows, in words."""

    title: str
    text: str
    """For those who do not see it."""
    svg: str


@dataclass(frozen=True)
class Ranked:
    """One config of a ranking."""

    label: str
    gain: Estimate | None
    wins: bool


def chart(
    title: str,
    text: str,
    draw: Callable[[Axes], None],
    *,
    name: str,
    legend: bool = True,
    height_in: float = _HEIGHT_IN,
) -> Chart:
    """Draw one chart.

    Args:
        title: Shown above it.
        text: What it shows, in words.
        draw: Onto the axes.
        name: Unique in the page: ids within the SVG derive from it.
        legend: Whether the series are named.
        height_in: Inches; the width is that of all charts.
    """
    import io

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 11.5,
        "font.family": "sans-serif",
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _MUTED,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": 0.8,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if legend:
            axes.legend(frameon=False, fontsize=11)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Chart(title, text, _for_a_page(buffer, title, text))


def _for_a_page(buffer: StringIO, title: str, text: str) -> str:
    from html import escape

    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    for given, wanted in _COLOURS.items():
        svg = svg.replace(given, wanted)
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # equal in every chart, and nothing refers to them
    box = re.search(r"viewBox=\"[^\"]+\"", svg)
    heading = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(f"{title}: {text}")}">'
    return heading + svg[svg.index(">") + 1 :]


def tpot_distributions(base_ms: Sequence[float], spec_ms: Sequence[float], *, name: str) -> Chart:
    """Share of requests up to each TPOT, for both arms."""
    text = (
        f"median {np.median(base_ms):.2f} ms on the baseline, {np.median(spec_ms):.2f} ms with speculation; "
        f"95 % of the requests within {np.quantile(base_ms, 0.95):.2f} and {np.quantile(spec_ms, 0.95):.2f} ms"
    )

    def draw(axes: Axes) -> None:
        shares = np.linspace(0, 100, 201)
        axes.plot(np.percentile(base_ms, shares), shares, "--", color=_BASE, label="baseline")
        axes.plot(np.percentile(spec_ms, shares), shares, "-", color=_SPEC, label="specdec")
        axes.set_xlabel("TPOT of a request (ms)")
        axes.set_ylabel("% of requests")
        axes.set_ylim(0, 100)

    return chart("TPOT of the requests", text, draw, name=name)


def acceptance_by_position(joint: Sequence[float], conditional: Sequence[float | None], *, name: str) -> Chart:
    """Both kinds of share, side by side."""
    shown = [np.nan if share is None else 100 * share for share in conditional]
    text = "joint " + ", ".join(f"{position}: {100 * share:.0f} %" for position, share in enumerate(joint))
    text += "; conditional " + ", ".join(
        f"{position}: {'-' if share is None else f'{100 * share:.0f} %'}" for position, share in enumerate(conditional)
    )

    def draw(axes: Axes) -> None:
        places = np.arange(len(joint))
        axes.bar(places - 0.2, [100 * share for share in joint], 0.36, color=_SPEC, label="joint")
        axes.bar(places + 0.2, shown, 0.36, fill=False, edgecolor=_MUTED, hatch="///", label="conditional")
        axes.set_xticks(places)
        axes.set_xlabel("draft position")
        axes.set_ylabel("% accepted")
        axes.set_ylim(0, 119)

    return chart("Accepted by draft position", text, draw, name=name)


def rounds_over_time(base_ms: Sequence[float | None], spec_ms: Sequence[float | None], *, name: str) -> Chart:
    """Mean TPOT of each round, for both arms."""
    text = "; ".join(
        f"{arm} {', '.join('-' if value is None else f'{value:.2f}' for value in values)} ms"
        for arm, values in (("baseline", base_ms), ("specdec", spec_ms))
    )

    def draw(axes: Axes) -> None:
        for values, mark, colour, label in ((base_ms, "o--", _BASE, "baseline"), (spec_ms, "s-", _SPEC, "specdec")):
            numbers = [np.nan if value is None else value for value in values]
            axes.plot(range(1, len(numbers) + 1), numbers, mark, color=colour, label=label, markersize=4)
        axes.set_xticks(range(1, len(base_ms) + 1))
        axes.set_xlabel("round")
        axes.set_ylabel("mean TPOT (ms)")
        axes.set_ylim(bottom=0)

    return chart("Rounds", text, draw, name=name)


def gain_against_load(
    loads: Sequence[float], gains: Sequence[Estimate], *, label: str, crossover: float | None, name: str
) -> Chart:
    """TPOT gain at each load, with intervals; where it is gone, a line says so."""
    text = ", ".join(f"{100 * gain.value:.1f} % at {load:g}" for load, gain in zip(loads, gains, strict=True))
    text += f"; gone at about {crossover:.3g}" if crossover is not None else ""

    def draw(axes: Axes) -> None:
        values = np.array([100 * gain.value for gain in gains])
        ends = [
            (
                100 * (gain.value if gain.low is None else gain.low),
                100 * (gain.value if gain.high is None else gain.high),
            )
            for gain in gains
        ]
        spans = np.abs(np.array(ends).T - values)
        axes.errorbar(loads, values, yerr=spans, fmt="s-", color=_SPEC, capsize=4, markersize=4)
        axes.axhline(0, color=_MUTED, linestyle=":")
        if crossover is not None:
            axes.axvline(crossover, color=_MUTED, linestyle="--")
            axes.annotate(f" gone at {crossover:.3g}", (crossover, float(values.max())), color=_INK)
        axes.set_xscale("log")
        axes.set_xticks(loads, [f"{load:g}" for load in loads])
        axes.minorticks_off()
        axes.set_xlabel(label)
        axes.set_ylabel("TPOT gain (%)")

    return chart("Gain against load", text, draw, name=name, legend=False)


def ranked_gains(ranked: Sequence[Ranked], text: str, *, name: str) -> Chart:
    """TPOT gain of each config with its interval, all on one axis; the winner, where there is one, has a filled mark and says so.

    Args:
        ranked: The largest gain first.
        text: All that the picture shows, and what it proves.
        name: As in :func:`chart`.
    """
    shown = [(place, one, one.gain) for place, one in enumerate(ranked) if one.gain is not None]

    def draw(axes: Axes) -> None:
        for place, one, gain in shown:
            low, value, high = (100 * (gain.value if end is None else end) for end in (gain.low, gain.value, gain.high))
            axes.vlines(0, place - 0.3, place + 0.3, color=_MUTED, linestyle=":")
            axes.errorbar(
                value,
                place,
                xerr=[[max(value - low, 0)], [max(high - value, 0)]],
                fmt="s",
                color=_SPEC,
                markerfacecolor=_SPEC if one.wins else "none",
                capsize=4,
                markersize=6,
            )
            # Above its interval, not beside the axis: names are long and phones are narrow.
            axes.annotate(
                f"{_short(one.label)}{', winner' if one.wins else ''}",
                (0, place - 0.38),
                xycoords=("axes fraction", "data"),
                color=_INK,
                fontweight="bold" if one.wins else "normal",
            )
        axes.set_ylim(len(shown) - 0.6, -0.8)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("TPOT gain (%)")

    return chart("Ranking", text, draw, name=name, legend=False, height_in=0.6 + 0.6 * max(len(shown), 1))


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 3]}..."
