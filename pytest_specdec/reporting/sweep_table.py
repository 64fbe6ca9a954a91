"""Gain against load: the table below a sweep's failure, and the line that sums it up."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from pytest_specdec.reporting.layout import WIDE, grid
from pytest_specdec.reporting.verdict_table import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.crossover_verdicts import Sweep
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate

_UNKNOWN = "-"
_WORDS = {"concurrency": "concurrency", "request_rate": "per second"}
_GAINS = {"tpot_gain": "TPOT gain", "throughput_gain": "throughput gain"}


def sweep_lines(comparisons: Sequence[Comparison], *, width: int = WIDE) -> list[str]:
    """The table, and where the gains are gone; nothing for a single load.

    Args:
        comparisons: Of one config, at ascending loads.
        width: Columns that there are; with too few, every load takes two lines.
    """
    if len(comparisons) < 2:  # noqa: PLR2004 - one load is no sweep
        return []
    from pytest_specdec.core.crossover_verdicts import sweep_of
    from pytest_specdec.core.summary import summarise

    sweep = sweep_of(comparisons)
    rows = [_heading(sweep)]
    for point in sweep.points:
        summary = summarise(point.comparison)
        length = summary.acceptance.acceptance_length if summary.acceptance else None
        rows.append(
            [
                f"{point.load:g}",
                _interval(point.tpot_gain),
                _interval(point.throughput_gain),
                *(_number(arm.tpot_s, 1000, 2) for arm in (summary.baseline, summary.specdec)),
                _number(length, 1, 2),
                str(point.comparison.load.num_requests),
                str(point.comparison.rounds),
            ]
        )
    if all(point.throughput_gain is None for point in sweep.points):
        rows = [[cell for place, cell in enumerate(row) if place != 2] for row in rows]  # noqa: PLR2004 - that column
    return [*grid(rows, width, fold=len(rows[0]) - 5, right=True), *_crossover_lines(sweep)]


def sweep_summary(comparisons: Sequence[Comparison]) -> str:
    """``TPOT gain 38.1 % @ concurrency 1, 21.4 % @ 8, -3.1 % @ 32; gone at concurrency 27.3 (8 .. 32)``."""
    from pytest_specdec.core.crossover_verdicts import sweep_of

    sweep = sweep_of(comparisons)
    words = [comparisons[0].load.at, *(f"{point.load:g}" for point in sweep.points[1:])]
    gains = (_gain(point.tpot_gain) for point in sweep.points)
    text = "TPOT gain " + ", ".join(f"{gain} @ {word}" for gain, word in zip_longest(gains, words))
    found = sweep.crossover()
    return text if found is None else f"{text}; gone {_at(sweep, str(found))}"


def _heading(sweep: Sweep) -> list[str]:
    first = sweep.points[0]
    level = next((gain.level for gain in (first.tpot_gain, first.throughput_gain) if gain and gain.level), None)
    confidence = f" ({percent(round(level, 4))})" if level is not None else ""
    return [
        _WORDS[sweep.field],
        f"TPOT gain{confidence}",
        "throughput gain",
        "TPOT ms plain",
        "speculating",
        "AL",
        "requests",
        "rounds",
    ]


def _crossover_lines(sweep: Sweep) -> list[str]:
    return [
        f"the {words} is gone {_at(sweep, str(found))}"
        for name, words in _GAINS.items()
        if (found := sweep.crossover(name)) is not None
    ]


def _at(sweep: Sweep, crossover: str) -> str:
    """``at concurrency 27.3 (8 .. 32)``, ``above concurrency 32``."""
    side, _, value = crossover.rpartition(" ") if crossover.startswith(("above", "below")) else ("at", "", crossover)
    return f"{side} {value} per second" if sweep.field == "request_rate" else f"{side} concurrency {value}"


def _interval(gain: Estimate | None) -> str:
    if gain is None:
        return _UNKNOWN
    low, high = ("?" if end is None else f"{100 * end:.1f}" for end in (gain.low, gain.high))
    return f"{_gain(gain)}   {low} .. {high} %"


def _gain(gain: Estimate | None) -> str:
    return _UNKNOWN if gain is None else f"{100 * gain.value + 0.0:.1f} %"


def _number(value: float | None, scale: float, decimals: int) -> str:
    return _UNKNOWN if value is None else f"{scale * value:.{decimals}f}"
