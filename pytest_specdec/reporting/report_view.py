"""What the HTML report shows: a session's records turned into plain rows and charts, the worst gate first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.class_acceptance import by_class
from pytest_specdec.core.crossover_verdicts import measured_sweeps
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import estimate
from pytest_specdec.core.ranking import rankings
from pytest_specdec.core.summary import summarise
from pytest_specdec.core.sweep import amount, crossover
from pytest_specdec.reporting import charts
from pytest_specdec.reporting.course import placement_lines, time_lines, warm_up_lines
from pytest_specdec.reporting.markdown import verdict_sentence, worst_first
from pytest_specdec.reporting.measurement import conditions, measurement_lines
from pytest_specdec.reporting.ranking import contender_name, ranking_text
from pytest_specdec.reporting.server_lines import server_lines
from pytest_specdec.reporting.terminal import failure_lines, session_lines
from pytest_specdec.reporting.verdict_table import cells_of, remark_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.report_section import ReportSection
    from pytest_specdec.core.results import GateRecord, ResultDocument
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.tables import RequestTable
    from pytest_specdec.core.verdict import Estimate, Verdict
    from pytest_specdec.reporting.charts import Chart

_PADDING = 0.12
_SEVERAL = 2


@dataclass(frozen=True)
class Scale:
    """An interval against its threshold, in percent of the width of a picture."""

    low: float
    high: float
    value: float
    required: float
    open_low: bool
    """Nothing bounds the quantity on that side."""
    open_high: bool


@dataclass(frozen=True)
class Row:
    """One objective of a gate."""

    outcome: str
    objective: str
    required: str
    measured: str
    difference: str
    interval: str
    scale: Scale


@dataclass(frozen=True)
class GateView:
    """One gate."""

    judgement: str
    nodeid: str
    message: str
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]
    explanation: str
    advice: str
    anchor: str
    """Of its measurement; empty where nothing was measured."""
    terminal: str
    """All that the terminal shows."""


@dataclass(frozen=True)
class MeasurementView:
    """One comparison."""

    key: str
    anchor: str
    conditions: str
    figures: tuple[str, ...]
    charts: tuple[Chart, ...]
    classes: tuple[tuple[str, ...], ...]
    """Class, share, requests, acceptance length, TPOT gain."""
    changed: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    """How it was measured."""


@dataclass(frozen=True)
class ReportView:
    """The page."""

    sentence: str
    worst: str
    created: str
    summary: str
    gates: tuple[GateView, ...]
    added: tuple[ReportSection, ...]
    """Of other plugins."""
    ranked: tuple[Chart, ...]
    loads: tuple[Chart, ...]
    measurements: tuple[MeasurementView, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def view_of(document: ResultDocument) -> ReportView:
    """Everything on the page."""
    gates = worst_first(document.gates)
    anchors = {key: f"measurement-{number}" for number, key in enumerate(document.comparisons, start=1)}
    return ReportView(
        sentence=verdict_sentence(gates),
        worst=gates[0].judgement if gates else "unjudged",
        created=datetime.fromtimestamp(document.created_unix_s, tz=timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        summary="\n".join(session_lines(gates, document.comparisons)),
        gates=tuple(_gate(gate, document, anchors) for gate in gates),
        added=document.sections,
        ranked=tuple(_rankings(document.comparisons)),
        loads=tuple(_loads(document.comparisons)),
        measurements=tuple(_measurement(key, one, anchors[key]) for key, one in document.comparisons.items()),
        environment=document.environment,
    )


def _gate(gate: GateRecord, document: ResultDocument, anchors: Mapping[str, str]) -> GateView:
    terminal = ""
    if gate.comparison is not None:
        comparison = document.comparisons[gate.comparison]
        terminal = "\n".join(failure_lines(gate, comparison, summarise(comparison), course=True))
    return GateView(
        judgement=gate.judgement,
        nodeid=gate.nodeid,
        message=gate.message,
        rows=tuple(map(_row, gate.verdicts)),
        remarks=tuple(remark_lines(gate.verdicts)),
        explanation=" ".join(gate.explanation),
        advice=gate.advice,
        anchor=anchors.get(gate.comparison or "", ""),
        terminal=terminal,
    )


def _row(verdict: Verdict) -> Row:
    required, measured, difference, interval = cells_of(verdict)
    return Row(
        outcome=verdict.outcome,
        objective=verdict.requirement.label,
        required=required,
        measured=measured,
        difference=difference.strip("()"),
        interval=interval,
        scale=scale_of(verdict),
    )


def scale_of(verdict: Verdict) -> Scale:
    """Where things stand in the picture of an interval."""
    shown, required = verdict.estimate, verdict.requirement.required
    fact = shown.level is None
    low, high = (shown.value if fact or end is None else end for end in (shown.low, shown.high))
    least, most = min(low, required, shown.value), max(high, required, shown.value)
    width = (most - least) or 1.0

    def place(value: float) -> float:
        return round(100 * (_PADDING + (1 - 2 * _PADDING) * (value - least) / width), 2)

    open_low, open_high = (not fact and end is None for end in (shown.low, shown.high))
    return Scale(
        low=0.0 if open_low else place(low),
        high=100.0 if open_high else place(high),
        value=place(shown.value),
        required=place(required),
        open_low=open_low,
        open_high=open_high,
    )


def _measurement(key: str, comparison: Comparison, anchor: str) -> MeasurementView:
    summary = summarise(comparison)
    changed = [f"by this plugin: {change}" for change in comparison.changes] + server_lines(comparison)
    left_out = {conditions(comparison), *placement_lines(comparison), *server_lines(comparison)}
    figures = [
        line for line in measurement_lines(comparison, summary) if line not in left_out and "we changed" not in line
    ]
    return MeasurementView(
        key=key,
        anchor=anchor,
        conditions=conditions(comparison),
        figures=tuple(figures),
        charts=tuple(_charts(comparison, anchor)),
        classes=tuple(_classes(comparison)),
        changed=tuple(changed),
        facts=tuple(_facts(comparison)),
    )


def _charts(comparison: Comparison, anchor: str) -> Iterator[Chart]:
    evidence = Evidence(comparison, comparison.load.confidence)
    try:
        base, spec = evidence.base, evidence.spec
    except CannotMeasure:
        return
    base_ms, spec_ms = _milliseconds(base), _milliseconds(spec)
    if len(base_ms) and len(spec_ms):
        yield charts.tpot_distributions(base_ms.tolist(), spec_ms.tolist(), name=f"{anchor}-tpot")
    acceptance = summarise(comparison).acceptance
    if acceptance is not None and acceptance.per_position and acceptance.conditional is not None:
        yield charts.acceptance_by_position(acceptance.per_position, acceptance.conditional, name=f"{anchor}-positions")
    if comparison.rounds >= _SEVERAL:
        by_round = [_by_round(table, comparison.rounds) for table in (base, spec)]
        yield charts.rounds_over_time(*by_round, name=f"{anchor}-rounds")


def _milliseconds(table: RequestTable) -> Floats:
    tpot_ms: Floats = 1000 * table.tpot_s[~np.isnan(table.tpot_s)]
    return tpot_ms


def _by_round(table: RequestTable, rounds: int) -> list[float | None]:
    found = [table.tpot_s[(table.round == number) & ~np.isnan(table.tpot_s)] for number in range(rounds)]
    return [1000 * float(one.mean()) if len(one) else None for one in found]


def _classes(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    for one in by_class(comparison):
        length, gain = one.acceptance_length, one.tpot_gain
        yield (
            one.name,
            f"{100 * one.share:.0f} %",
            str(one.requests),
            _estimate(length, 1, 2, "") if length else one.unknown or "-",
            _estimate(gain, 100, 1, " %") if gain else "-",
        )


def _estimate(shown: Estimate, factor: float, decimals: int, unit: str) -> str:
    ends = ["?" if end is None else f"{factor * end:.{decimals}f}" for end in (shown.low, shown.high)]
    return f"{factor * shown.value:.{decimals}f}{unit} ({' .. '.join(ends)}{unit})"


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    load, workload = comparison.load, comparison.workload
    yield "load", load.describe()
    yield (
        "sampling",
        (
            f"temperature {load.temperature:g}, top_p {load.top_p:g}, top_k {load.top_k}, seed {load.seed}, max_tokens {load.max_tokens}"
            f", {'ends ignored (ignore_eos)' if load.ignore_eos else 'natural ends'}"
        ),
    )
    yield "workload", f"{workload.name}, {workload.prompts} prompts, {workload.path}, sha256 {workload.sha256}"
    yield "device", comparison.device or "unknown"
    for line in (*placement_lines(comparison), *warm_up_lines(comparison), *time_lines(comparison)):
        name, _, text = line.partition(": ")
        yield name.strip(), text or name
    for server in comparison.servers:
        name = f"{server.arm}, launch {server.launch + 1}"
        attested = (
            f"; {server.attested_method}, {server.attested_tokens} draft tokens" if server.attested_method else ""
        )
        yield name, f"vllm {server.version or 'of unknown version'}, model {server.model}{attested}, log {server.log}"
        yield f"{name}: command", " ".join(server.command)
        if server.env:
            yield f"{name}: environment", " ".join(f"{key}={value}" for key, value in server.env.items())


def _rankings(comparisons: Mapping[str, Comparison]) -> Iterator[Chart]:
    """For every load under which several configs were measured: their gains on one axis."""
    for number, ranking in enumerate(rankings(comparisons.values()), start=1):
        ranked = [
            charts.Ranked(contender_name(one), one.gain, wins=one.config_id == ranking.winner)
            for one in ranking.contenders
        ]
        drawn = charts.ranked_gains(ranked, ranking_text(ranking), name=f"ranking-{number}")
        yield replace(drawn, title=f"{drawn.title}: {ranking.workload}, {ranking.load.describe()}")


def _loads(comparisons: Mapping[str, Comparison]) -> Iterator[Chart]:
    """Gain against load, where one config was measured at several loads that are otherwise equal."""
    for number, sweep in enumerate(measured_sweeps(comparisons), start=1):
        group = list(sweep.values())
        points = [(amount(one.load), gain) for one in group if (gain := _gain(one)) is not None]
        if len(points) < _SEVERAL:
            continue
        loads, gains = [load for load, _ in points], [gain for _, gain in points]
        first = group[0]
        crossing = crossover(loads, gains)
        drawn = charts.gain_against_load(
            loads,
            gains,
            label="requests per second" if first.load.open_loop else "requests in flight",
            crossover=None if crossing.censored else crossing.value,
            name=f"loads-{number}",
        )
        yield replace(drawn, title=f"{drawn.title}: {first.config_id}, {first.workload.name}")


def _gain(comparison: Comparison) -> Estimate | None:
    try:
        return estimate(comparison, "tpot_gain")
    except CannotMeasure:
        return None
