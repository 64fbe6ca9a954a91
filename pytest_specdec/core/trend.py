"""Saved runs as series: what was measured under equal conditions, in the order of time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.change_points import last_change, usual_step
from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.regression import figure_of
from pytest_specdec.core.saved import conditions
from pytest_specdec.core.slo_values import REGRESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_specdec.core.change_points import ChangePoint
    from pytest_specdec.core.results import Judgement, ResultDocument
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import StoredRun
    from pytest_specdec.core.verdict import Estimate

_WORST: tuple[Judgement, ...] = ("FAIL", "ERROR", "unsure", "ok")


@dataclass(frozen=True)
class Point:
    """One run in a series."""

    created_unix_s: float
    commit: str
    """Eight digits, ``+`` where files were changed; empty where unknown, like the other two."""
    branch: str
    saved_as: str
    judgement: str
    """The worst of the gates that rest on it; ``-`` without one."""
    figures: Mapping[str, Estimate | None]
    """By name, see :data:`pytest_specdec.core.slo_values.REGRESSIONS`; None where undefined."""

    @property
    def when(self) -> str:
        """To the minute, UTC."""
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.created_unix_s))


@dataclass(frozen=True)
class Series:
    """Runs under equal conditions, the oldest first."""

    config_id: str
    workload: str
    load: str
    conditions: Mapping[str, object]
    points: tuple[Point, ...]

    def _values(self, part: str) -> tuple[list[int], list[float]]:
        known = [(place, one) for place, point in enumerate(self.points) if (one := point.figures[part]) is not None]
        return [place for place, _ in known], [one.value for _, one in known]

    def change(self, part: str) -> tuple[Point, ChangePoint] | None:
        """The run from which on a figure is on another level, where that is beyond chance."""
        places, values = self._values(part)
        found = last_change(values)
        return None if found is None else (self.points[places[found.at]], found)

    def usual_step(self, part: str) -> float | None:
        """By what fraction a figure usually changes from one run to the next; None for fewer than three runs."""
        return usual_step(self._values(part)[1])


def series_of(runs: Iterable[StoredRun]) -> tuple[Series, ...]:
    """Every series that the runs make, the one with the latest run first.

    Args:
        runs: In any order.
    """
    groups: dict[tuple[object, ...], list[tuple[ResultDocument, str, Comparison]]] = {}
    for run in sorted(runs, key=lambda run: run.document.created_unix_s):
        for key, one in run.comparisons.items():
            group = (one.config_id, one.workload.name, *conditions(one).items())
            groups.setdefault(group, []).append((run.document, key, one))
    found = [_series(members) for members in groups.values()]
    return tuple(sorted(found, key=lambda one: one.points[-1].created_unix_s, reverse=True))


def _series(members: list[tuple[ResultDocument, str, Comparison]]) -> Series:
    last = members[-1][2]
    return Series(
        config_id=last.config_id,
        workload=last.workload.name,
        load=last.load.at,
        conditions=conditions(last),
        points=tuple(_point(document, key, one) for document, key, one in members),
    )


def _point(document: ResultDocument, key: str, comparison: Comparison) -> Point:
    known = document.environment
    judged = {gate.judgement for gate in document.gates if key in (gate.comparison, *gate.points)}
    return Point(
        created_unix_s=document.created_unix_s,
        commit=known.get("commit", "")[:8] + ("+" if known.get("dirty") else ""),
        branch=known.get("branch", ""),
        saved_as=known.get("saved_as", ""),
        judgement=next((one for one in _WORST if one in judged), "-"),
        figures={part: _figure(comparison, part) for part in REGRESSIONS},
    )


def _figure(comparison: Comparison, part: str) -> Estimate | None:
    try:
        return figure_of(Evidence(comparison, comparison.load.confidence), part)
    except SpecDecError:
        return None
