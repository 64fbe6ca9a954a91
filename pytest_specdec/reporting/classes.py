"""Acceptance by class as text: a small table for failures, a line for the session's summary."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pytest_specdec.core.class_acceptance import by_class
from pytest_specdec.core.class_explain import asked_for, worth_telling
from pytest_specdec.core.class_mixture import mixture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.class_acceptance import ClassAcceptance
    from pytest_specdec.core.class_mixture import Mixture
    from pytest_specdec.core.results import GateRecord
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate, Verdict

_MOST_ROWS = 8
_WIDEST_NAME = 18
_WIDTH = 78
_WORST = " (worst)"
_UNKNOWN = "-"


def class_lines(comparison: Comparison, verdicts: Sequence[Verdict] = ()) -> list[str]:
    """The table: a heading, a row for each class, and the whole traffic. Empty where classes were not asked for.

    They were where a workload states their shares, an objective is about them, or every one has prompts enough to be judged.

    Args:
        comparison: What was measured.
        verdicts: Of the gate.
    """
    if not worth_telling(comparison, verdicts):
        return []
    classes, whole = by_class(comparison), mixture(comparison)
    worst = whole.worst if whole else None
    shown, left = _chosen(classes, worst)
    share = "share" if whole is None or whole.stated else "sent"
    rows: list[tuple[str, ...]] = [("class", share, "prompts", "AL", "interval", "tok/step", "TPOT gain")]
    rows += [_row(one, worst=one.name == worst) for one in shown]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["acceptance by class", *("  ".join(_cells(row, widths)).rstrip() for row in rows)]
    if left:
        lines.append(f"and {left} more {'class' if left == 1 else 'classes'}")
    unknown = dict.fromkeys(one.unknown for one in shown if one.unknown)
    told = [*unknown, *(_whole_lines(whole) if whole else [])]
    return [*lines, *(piece for line in told for piece in textwrap.wrap(line, _WIDTH, subsequent_indent="  "))]


def class_summary(comparison: Comparison, verdicts: Sequence[Verdict] = ()) -> str:
    """``AL by class: chat 1.42 (worst), code 2.31``; empty where nothing is about classes."""
    if not asked_for(comparison, verdicts):
        return ""
    classes = [one for one in by_class(comparison) if one.acceptance_length or one.tokens_per_step]
    if len(classes) < 2:  # noqa: PLR2004 - one class is the whole
        return ""
    whole = mixture(comparison)
    worst = whole.worst if whole else None
    lengths = all(one.acceptance_length for one in classes)
    classes.sort(key=lambda one: (one.name != worst, one.name))
    shown = [
        f"{one.name} {_number(one.acceptance_length if lengths else one.tokens_per_step)}"
        + (_WORST if one.name == worst else "")
        for one in classes[:_MOST_ROWS]
    ]
    return f"{'AL' if lengths else 'tokens per step'} by class: {', '.join(shown)}"


def class_summaries(gates: Sequence[GateRecord], comparisons: Mapping[str, Comparison]) -> list[str]:
    """A line for each comparison that has something to say about classes, in 80 columns."""
    lines = []
    for key, comparison in comparisons.items():
        verdicts = [verdict for gate in gates if gate.comparison == key for verdict in gate.verdicts]
        summary = class_summary(comparison, verdicts) if comparison.rounds else ""
        lines += textwrap.wrap(f"{key}: {summary}", 80, subsequent_indent="  ") if summary else []
    return lines


def _chosen(classes: Sequence[ClassAcceptance], worst: str | None) -> tuple[list[ClassAcceptance], int]:
    """The largest shares, and always the worst class."""
    shown = list(classes[:_MOST_ROWS])
    if worst is not None and all(one.name != worst for one in shown):
        shown[-1] = next(one for one in classes if one.name == worst)
    return shown, len(classes) - len(shown)


def _row(one: ClassAcceptance, *, worst: bool) -> tuple[str, ...]:
    length, gain = one.acceptance_length, one.tpot_gain
    return (
        _short(one.name, _WIDEST_NAME - len(_WORST)) + _WORST if worst else _short(one.name),
        f"{100 * one.share:.1f} %",
        str(one.prompts),
        _number(length),
        _interval(length),
        _number(one.tokens_per_step),
        _UNKNOWN if gain is None else f"{100 * gain.value:.1f} %",
    )


def _whole_lines(whole: Mixture) -> list[str]:
    lines = []
    traffic = "the traffic" if whole.stated else "what was sent"
    if whole.acceptance_length is not None and whole.mean_acceptance_length is not None:
        length, mean = whole.acceptance_length, whole.mean_acceptance_length
        lines.append(f"{traffic}, weighted by requests: AL {_number(length)} ({_interval(length)})".replace(" (-)", ""))
        lines.append(f"{traffic}, plain mean of the classes' AL: {_number(mean)}")
    elif whole.tokens_per_step is not None:
        lines.append(f"{traffic}, weighted by requests: {_number(whole.tokens_per_step)} tokens per step")
    if whole.unmeasured:
        lines.append(f"not measured, although it has a share: {', '.join(map(_short, whole.unmeasured[:_MOST_ROWS]))}")
    return lines


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The name to the left, numbers to the right."""
    return [
        f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _short(name: str, width: int = _WIDEST_NAME) -> str:
    return name if len(name) <= width else f"{name[: width - 3]}..."


def _number(estimate: Estimate | None) -> str:
    return _UNKNOWN if estimate is None else f"{estimate.value:.2f}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or (estimate.low is None and estimate.high is None):
        return _UNKNOWN
    low, high = ("?" if end is None else f"{end:.2f}" for end in (estimate.low, estimate.high))
    return f"{low} .. {high}"
