"""What ``--specdec-dynamic`` found: gains by load and K, the schedule, and whether to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.reporting.layout import WIDE, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.results import GateRecord
    from pytest_specdec.core.schedule import KPoint, Schedule


def gain_table(points: Sequence[KPoint], schedule: Schedule, *, width: int = WIDE) -> list[str]:
    """A row for each load, a column for each K, and the K that the schedule takes there."""
    ks = sorted({point.k for point in points if point.k})
    gains = {(point.concurrency, point.k): point.gain for point in points}
    rows = [["concurrency", *(f"K = {k}" for k in ks), "scheduled K"]]
    for load in sorted({point.concurrency for point in points}):
        k = next(k for first, last, k in schedule if first <= load <= last)
        rows.append([str(load), *(f"{100 * gains[load, one]:.1f} %" for one in ks), str(k)])
    return grid(rows, width, fold=1 + (len(ks) + 1) // 2, right=True)


def schedule_text(schedule: Schedule) -> str:
    """``[[1, 6, 4], [7, 32, 0]]``."""
    return str([list(entry) for entry in schedule])


def recommendation(name: str, gates: Sequence[GateRecord], better: str) -> str:
    """Whether a config may be used: only when it was gated in this run, every gate is met, and no single K does better.

    Args:
        name: The file.
        gates: Those of the run that were for it.
        better: What does better, in words; empty where nothing does.
    """
    judged = [gate for gate in gates if gate.judgement != "unjudged"]
    missed = [gate for gate in judged if gate.judgement != "ok" or gate.outcome != "passed"]
    if missed:
        return f"not recommended: {missed[0].nodeid} is {missed[0].judgement}"
    if not judged:
        return "not recommended yet: no gate has judged it"
    if better:
        return f"not recommended: {better}"
    gates_are = "its gate is ok" if len(judged) == 1 else f"all its {len(judged)} gates are ok"
    return f"recommended, {gates_are}: use {name}"
