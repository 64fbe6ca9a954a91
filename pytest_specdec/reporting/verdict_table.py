"""Verdicts as text: the one-line headline, and the table of required, measured and interval."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_specdec.reporting.layout import WIDE, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.verdict import Unit, Verdict

_DECIMALS: dict[Unit, int] = {"fraction": 1, "tokens": 2, "GiB": 1, "s": 1, "count": 0, "yes/no": 0}
_MAX_DECIMALS = 6
_NO_INTERVAL = "-"
_UNBOUNDED = "?"
_MOST_OBJECTIVES = 4
"""In one line."""


def headline(verdicts: Sequence[Verdict]) -> str:
    """One line: ``1 of 2 objectives missed: tpot_gain 21.4 % < 30 %``.

    Misses are listed; where there are none, what is unsure is. It becomes the message of the failure, of JUnit and of
    annotations.
    """
    missed = [verdict for verdict in verdicts if verdict.outcome == "FAIL"]
    unsure = [verdict for verdict in verdicts if verdict.outcome == "unsure"]
    total = f"{len(verdicts)} objective{'' if len(verdicts) == 1 else 's'}"
    if missed:
        also = f", {len(unsure)} unsure" if unsure else ""
        return f"{len(missed)} of {total} missed{also}: {', '.join(map(_miss, missed))}"
    if unsure:
        return f"{len(unsure)} of {total} unsure: {', '.join(map(_unproven, unsure))}"
    return f"{len(verdicts)} of {total} met"


def table_lines(verdicts: Sequence[Verdict], *, confidence: float, width: int = WIDE) -> list[str]:
    """The table: a heading and one line per verdict, columns aligned.

    Args:
        verdicts: In the order to be shown.
        confidence: What the load asks for; where the intervals' level is higher, the heading names the looks that share
            the difference.
        width: Columns that there are; with too few, every verdict takes two lines.
    """
    if not verdicts:
        return []
    levels = Counter(verdict.estimate.level for verdict in verdicts if verdict.estimate.level is not None)
    level = levels.most_common(1)[0][0] if levels else None
    loads = len({verdict.requirement.at for verdict in verdicts if verdict.requirement.at}) or 1
    thresholds = _right([_shown(verdict, verdict.requirement.required) for verdict in verdicts])
    columns: list[tuple[str, list[str]]] = [
        ("      ", [verdict.outcome for verdict in verdicts]),
        ("objective", [verdict.requirement.label for verdict in verdicts]),
        (
            "required",
            [f"{_sign(verdict):<2} {required}" for verdict, required in zip(verdicts, thresholds, strict=True)],
        ),
        ("measured", _right([_measured(verdict) for verdict in verdicts])),
        ("", [_difference(verdict) for verdict in verdicts]),
        (_heading(level, confidence, loads), _right([_interval(verdict, level) for verdict in verdicts])),
    ]
    rows = list(zip(*([heading, *cells] for heading, cells in columns), strict=True))
    return grid(rows, width, fold=2, gaps=(2, 2, 4, 4, 3, 4), hanging=10)


def objectives_text(verdicts: Sequence[Verdict]) -> str:
    """For a row of its own: ``tpot_gain 21.4 % >= 10 %, min_acceptance_length 2.31 >= 1.5``; what is not met first, few of many."""
    worst_first = sorted(verdicts, key=lambda verdict: ("FAIL", "unsure", "ok").index(verdict.outcome))
    told = {"FAIL": _miss, "unsure": _unproven, "ok": _met}
    shown = [told[verdict.outcome](verdict) for verdict in worst_first[:_MOST_OBJECTIVES]]
    left = len(verdicts) - len(shown)
    return ", ".join([*shown, *([f"and {left} more"] if left else [])])


def remark_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """What the table has no room for: what would settle a verdict, requests that were left out, other units."""
    lines = []
    for verdict in verdicts:
        label, excluded = verdict.requirement.label, verdict.estimate.excluded
        if verdict.advice and verdict.outcome != "ok":
            lines.append(verdict.advice if label in verdict.advice else f"{label}: {verdict.advice}")
        if excluded:
            requests = "1 request is" if excluded == 1 else f"{excluded} requests are"
            lines.append(f"{label}: {requests} left out, being undefined there")
        if verdict.estimate.remark:
            lines.append(f"{label}: {verdict.estimate.remark}")
    return lines


def cells_of(verdict: Verdict) -> tuple[str, str, str, str]:
    """One verdict's row by itself: required, measured, the difference of the two, and the interval with its level."""
    return (
        f"{_sign(verdict)} {_required(verdict)}",
        "".join(_shown(verdict, verdict.estimate.value)),
        _difference(verdict),
        "".join(_interval(verdict, None)),
    )


def gain_text(verdict: Verdict | None, gain: float | None) -> str:
    """A gain for a row of its own: ``21.4 % (18.9 .. 23.8 %)``, without the interval where it was not judged."""
    if verdict is not None:
        interval = (
            f" ({''.join(_interval(verdict, verdict.estimate.level))})" if verdict.estimate.level is not None else ""
        )
        return "".join(_shown(verdict, verdict.estimate.value)) + interval
    return "-" if gain is None else f"{100 * gain:.1f} %"


def percent(fraction: float) -> str:
    """A fraction as a percentage without needless digits: ``30 %``, ``98.75 %``."""
    return f"{round(100 * fraction, 4):g} %"


def _miss(verdict: Verdict) -> str:
    if verdict.unit == "yes/no":
        return f"{verdict.requirement.label}: {verdict.estimate.remark}"
    sign = "<" if verdict.direction == "higher" else ">"
    return f"{verdict.requirement.label} {''.join(_measured(verdict)).removeprefix('< ')} {sign} {_required(verdict)}"


def _met(verdict: Verdict) -> str:
    if verdict.unit == "yes/no":
        return f"{verdict.requirement.label}: yes"
    return f"{verdict.requirement.label} {''.join(_measured(verdict)).removeprefix('> ')} {_sign(verdict)} {_required(verdict)}"


def _unproven(verdict: Verdict) -> str:
    if verdict.unit == "yes/no":
        return f"{verdict.requirement.label} not proven: {verdict.estimate.remark}"
    interval = "".join(_interval(verdict, verdict.estimate.level))
    return f"{verdict.requirement.label} {_sign(verdict)} {_required(verdict)} not proven ({interval})"


def _sign(verdict: Verdict) -> str:
    if verdict.unit == "yes/no":
        return ""
    return ">=" if verdict.direction == "higher" else "<="


def _required(verdict: Verdict) -> str:
    required = verdict.requirement.required
    return percent(required) if verdict.unit == "fraction" else f"{required:.10g}"


def _shown(verdict: Verdict, value: float) -> tuple[str, str]:
    """A number of this verdict, and its unit."""
    if verdict.unit == "yes/no":
        return {0.0: "no", 1.0: "yes"}.get(value, "open"), ""
    return _number(value, verdict.unit, _decimals(verdict)), _suffix(verdict.unit)


def _measured(verdict: Verdict) -> tuple[str, str]:
    """The value; ``> 32`` where it lies beyond the highest load that was measured."""
    beyond = {"": "", "above": "> ", "below": "< "}[verdict.estimate.censored]
    number, unit = _shown(verdict, verdict.estimate.value)
    return f"{beyond}{number}", unit


def _difference(verdict: Verdict) -> str:
    if verdict.unit == "yes/no":
        return ""
    difference = verdict.estimate.value - verdict.requirement.required
    unit = " pp" if verdict.unit == "fraction" else ""
    return f"({_number(difference, verdict.unit, _decimals(verdict), sign='+')}{unit})"


def _interval(verdict: Verdict, level: float | None) -> tuple[str, str]:
    """The lower end, and the rest with the interval's own level where it is not the column's."""
    estimate = verdict.estimate
    if estimate.level is None or verdict.unit == "yes/no":
        return _NO_INTERVAL, ""
    low, high = (
        _UNBOUNDED if end is None else _number(end, verdict.unit, _decimals(verdict))
        for end in (estimate.low, estimate.high)
    )
    own_level = "" if estimate.level == level else f" ({percent(estimate.level)})"
    return low, f" .. {high}{_suffix(verdict.unit)}{own_level}"


def _heading(level: float | None, confidence: float, loads: int) -> str:
    if level is None:
        return ""
    looks = round((1 - confidence) / (1 - level) / loads) if level > confidence else 1
    shared = [f"{count} {what}" for count, what in ((looks, "looks"), (loads, "loads")) if count > 1]
    return f"{percent(round(level, 4))} interval" + (f" ({' x '.join(shared)})" if shared else "")


def _decimals(verdict: Verdict) -> int:
    """As many as the unit and the size of the value deserve, and enough to tell the value from the requirement."""
    value, required, unit = verdict.estimate.value, verdict.requirement.required, verdict.unit
    size = max(abs(value), abs(required))
    decimals = _DECIMALS.get(unit, 0 if size >= 100 else 1 if size >= 10 else 2)  # noqa: PLR2004 - three digits that count
    while (
        decimals < _MAX_DECIMALS
        and value != required
        and _number(value, unit, decimals) == _number(required, unit, decimals)
    ):
        decimals += 1
    return decimals


def _number(value: float, unit: Unit, decimals: int, *, sign: str = "") -> str:
    shown = round(100 * value if unit == "fraction" else value, decimals)
    return f"{shown + 0.0:{sign}.{decimals}f}"  # adding 0.0 turns -0.0 into 0.0


def _suffix(unit: Unit) -> str:
    return " %" if unit == "fraction" else ""


def _right(cells: Sequence[tuple[str, str]]) -> list[str]:
    """Numbers set to the right of each other, whatever follows them."""
    width = max(len(number) for number, _ in cells)
    return [f"{number:>{width}}{rest}" for number, rest in cells]
