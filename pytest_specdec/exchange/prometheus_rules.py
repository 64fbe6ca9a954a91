"""Recording and alerting rules of Prometheus, and a Grafana dashboard, from objectives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.exchange.promql import recorded_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.exchange.promql import Queries

_FOR = "10m"
_UNITS = {"fraction": "percentunit", "ms": "ms"}
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2


@dataclass(frozen=True)
class Watched:
    """An objective to watch, and who declares it."""

    requirement: Requirement
    sources: tuple[str, ...]
    """Tests, or the file that the objective was made from."""


def rules(watched: Sequence[Watched], queries: Queries) -> dict[str, Any]:
    """The content of a rules file; every objective must have a query."""
    records = {recorded_name(one.requirement): queries.of(one.requirement) for one in watched}
    alerts = [_alert(one) for one in watched]
    alerts += [
        {
            "alert": "SpecdecServerRestarted",
            "expr": f"{queries.restarts()} > 0",
            "labels": {"severity": "critical"},
            "annotations": {
                "summary": "A speculating server restarted: look for out-of-memory kills, the draft takes memory of its own"
            },
        },
        {
            "alert": "SpecdecSpeculationGone",
            "expr": queries.speculation_gone(),
            "for": _FOR,
            "labels": {"severity": "critical"},
            "annotations": {"summary": "Servers that should speculate answer requests without counting drafts"},
        },
    ]
    recording = [{"record": name, "expr": query} for name, query in records.items()]
    return {"groups": [{"name": "specdec", "rules": [*recording, *alerts]}]}


def _alert(watched: Watched) -> dict[str, Any]:
    requirement, objective = watched.requirement, REGISTRY[watched.requirement.objective]
    sign = "<" if objective.direction == "higher" else ">"
    label = requirement.label
    return {
        "alert": "Specdec" + "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", label)),
        "expr": f"{recorded_name(requirement)} {sign} {requirement.required!r}",
        "for": _FOR,
        "labels": {"severity": "warning", "objective": label, "required": f"{requirement.required:g}"},
        "annotations": {
            "summary": f"{label} is {{{{ $value }}}}, {'below' if sign == '<' else 'above'} {requirement.required:g}",
            # Braces in a test's name would be a template to Prometheus.
            "description": f"{objective.summary}. Declared by {', '.join(watched.sources)}.".replace("{{", "{ {"),
        },
    }


def dashboard(watched: Sequence[Watched], queries: Queries) -> dict[str, Any]:
    """The JSON model of a Grafana dashboard, for its import: a panel per objective with its thresholds, and both arms' latencies."""
    thresholds: dict[str, list[Watched]] = {}
    for one in watched:
        thresholds.setdefault(recorded_name(one.requirement), []).append(one)
    panels = [_objective_panel(name, group) for name, group in thresholds.items()]
    for quantity in ("tpot", "ttft"):
        targets = [
            (f"{arm} {statistic}", queries.latency_ms(matchers, quantity, statistic))
            for arm, matchers in (("baseline", queries.baseline), ("specdec", queries.specdec))
            for statistic in ("mean", "p95")
        ]
        panels.append(_panel(f"{quantity.upper()} of both arms", targets, "ms"))
    for place, panel in enumerate(panels):
        row, column = divmod(place, _COLUMNS)
        panel |= {"id": place + 1, "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}}
    return {
        "title": "Speculative decoding",
        "uid": "pytest-specdec",
        "tags": ["vllm", "speculative decoding"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }


def _objective_panel(name: str, group: Sequence[Watched]) -> dict[str, Any]:
    objective = REGISTRY[group[0].requirement.objective]
    limits = sorted({one.requirement.required for one in group})
    good, bad = ("green", "red") if objective.direction == "lower" else ("red", "green")
    panel = _panel(group[0].requirement.label, [("measured", name)], _UNITS.get(objective.unit, "none"))
    panel["description"] = objective.summary
    defaults = panel["fieldConfig"]["defaults"]
    defaults["custom"] = {"thresholdsStyle": {"mode": "line+area"}}
    steps: list[dict[str, Any]] = [{"color": good, "value": None}]
    steps += [{"color": bad if limit == limits[-1] else "orange", "value": limit} for limit in limits]
    defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return panel


def _panel(title: str, targets: Sequence[tuple[str, str]], unit: str) -> dict[str, Any]:
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "type": "timeseries",
        "title": title,
        "datasource": datasource,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": datasource, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(targets)
        ],
    }
