"""What a person reads in the terminal: pure functions from records to lines."""

from __future__ import annotations

import itertools
import textwrap
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_specdec.core.config_text import shown_path
from pytest_specdec.core.foreign_traffic import NOTE
from pytest_specdec.core.masking import masked_argv
from pytest_specdec.reporting.course import placement_lines, round_lines, time_lines, warm_up_lines
from pytest_specdec.reporting.layout import WIDE, fitted, grid, shell_lines
from pytest_specdec.reporting.legend import legend_lines
from pytest_specdec.reporting.measurement import measurement_lines, speedup_text
from pytest_specdec.reporting.ranking import ranking_lines, unranked_line
from pytest_specdec.reporting.verdict_table import gain_text, headline, objectives_text, remark_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.errors import Finding
    from pytest_specdec.core.procedure import Thresholds
    from pytest_specdec.core.results import GateRecord
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary

__all__ = ["failure_lines", "header_lines", "headline", "session_lines"]

_INDENT = "  "
_GATE_COLUMNS = ("verdict", "test", "TPOT gain", "AL", "faster")


def failure_lines(
    gate: GateRecord,
    comparison: Comparison,
    summary: Summary,
    *,
    result_path: str = "",
    again: str = "",
    width: int = WIDE,
    course: bool = False,
    sweep: Sequence[str] = (),
) -> list[str]:
    """The section below a failure: table, figures, explanation, and where to go from here.

    Args:
        gate: Its verdicts, explanation and advice.
        comparison: What was measured.
        summary: The figures of that comparison.
        result_path: The result file; left out when empty.
        again: The shell command that runs this gate alone; left out when empty.
        width: Columns that there are; running text takes no more than it can be read in.
        course: Also say how the servers were warmed up and where the time went.
        sweep: Of several loads: gain against load.
    """
    from pytest_specdec.reporting.classes import class_lines  # which computes; the header must not import that

    table = table_lines(gate.verdicts, confidence=comparison.load.confidence, width=width)
    logs = dict.fromkeys(shown_path(server.log) for server in comparison.servers if server.arm == "specdec")
    pointers = [*(("log", [log]) for log in logs), ("result", [result_path] if result_path else [])]
    pointers.append(("again", shell_lines(again, width - 10) if again else []))
    blocks = [
        [*table, *_indented(remark_lines(gate.verdicts))],
        _indented(sweep),
        _indented(measurement_lines(comparison, summary, gate.verdicts)),
        _indented(class_lines(comparison, gate.verdicts)),
        _indented([*warm_up_lines(comparison), *time_lines(comparison)] if course else []),
        _wrapped(" ".join(gate.explanation), width),
        _wrapped(f"advice: {gate.advice}" if gate.advice else "", width),
    ]
    pointing = [
        f"{_INDENT}{'' if place else name:<6}  {value}"
        for name, values in pointers
        for place, value in enumerate(values)
    ]
    blocks = [*(fitted(block, width) for block in blocks), pointing]
    return list(itertools.chain.from_iterable([*block, ""] for block in blocks if block))[:-1]


def session_lines(
    gates: Sequence[GateRecord],
    comparisons: Mapping[str, Comparison],
    *,
    thresholds: Thresholds | None = None,
    verbose: bool = False,
    width: int = WIDE,
) -> list[str]:
    """The session's summary: one row per gate, how configs compare where there are several, and what to do.

    Args:
        gates: In the order to be shown.
        comparisons: By the key that gates refer to.
        thresholds: Of the advice, where they are not the default ones.
        verbose: Also say, for every comparison, how its servers were placed and warmed up and where the time went.
        width: Columns that the table may take; the rest is to be :func:`fitted`.
    """
    if not (gates or comparisons):  # a run that only collects need not import what sums up
        return []
    from pytest_specdec.core.degenerate import defect_notes
    from pytest_specdec.core.recommendation import recommendations
    from pytest_specdec.core.summary import summarise
    from pytest_specdec.reporting.classes import class_summaries
    from pytest_specdec.reporting.recommendation import advice_lines

    summaries = {key: summarise(comparison) for key, comparison in comparisons.items() if comparison.rounds}
    rows = [_gate_row(gate, comparisons.get(gate.comparison or ""), summaries) for gate in gates]
    lines = _gate_table(gates, rows, width)
    lines += [
        f"{gate.nodeid}: {_first_line(gate.message)}" for gate in gates if gate.judgement == "ERROR" and gate.message
    ]
    lines += [f"{gate.nodeid}: {_sweep(gate, comparisons)}" for gate in gates if gate.points]
    lines += [f"{key}: note: {NOTE}" for key, comparison in comparisons.items() if comparison.foreign_traffic]
    lines += class_summaries(gates, comparisons)
    lines += [f"{key}: {note}" for key, comparison in comparisons.items() for note in defect_notes(comparison)]
    ranked = _ranking_lines(comparisons)
    lines += [*ranked, *([""] if ranked else []), *legend_lines([*lines, *ranked])]
    advice = advice_lines(recommendations(comparisons.values(), thresholds), thresholds)
    lines += ["", *advice] if lines and advice else []
    return [*lines, *(_course_lines(comparisons) if verbose else ())]


def _gate_table(gates: Sequence[GateRecord], rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """A row for each gate, and below it what was required and what was measured of that."""
    if not rows:
        return []
    table = grid([_GATE_COLUMNS, *rows], width, fold=2)
    per_row = len(table) // (len(rows) + 1)
    hanging = " " * (max(map(len, next(zip(_GATE_COLUMNS, *rows, strict=True)))) + 3)
    lines = table[:per_row]
    for place, gate in enumerate(gates, start=1):
        lines += table[place * per_row : (place + 1) * per_row]
        judged = gate.judgement in ("ok", "unsure", "FAIL")
        lines += [f"{hanging}{objectives_text(gate.verdicts)}"] if judged else []
    return lines


def _course_lines(comparisons: Mapping[str, Comparison]) -> list[str]:
    return [
        f"{key}: {line}"
        for key, comparison in comparisons.items()
        for line in (
            *placement_lines(comparison)[:1],
            *warm_up_lines(comparison),
            *round_lines(comparison),
            *time_lines(comparison),
        )
    ]


def header_lines(
    configs: Iterable[SpecConfig],
    findings: Iterable[Finding],
    directory: Path,
    placements: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """For pytest's header: every config with its target and command, what is odd about them, and the result folder.

    Args:
        configs: In their order.
        findings: Warnings and notes.
        directory: The result folder.
        placements: By config id, how its servers share the machine and why.
    """
    lines = []
    for config in configs:
        tokens = config.num_speculative_tokens
        speculation = config.method or "method left to vLLM"
        speculation += f", {tokens} draft tokens" if tokens is not None else ""
        command = f"; command {' '.join(masked_argv(config.command))}" if config.command else ""
        lines.append(f"specdec: {config.id} ({shown_path(config.path)}): {speculation}; target {config.model}{command}")
        lines += [f"specdec: {config.id}: {placements[config.id].splitlines()[0]}"] if config.id in placements else []
    lines += [f"specdec {finding.severity}: {finding}" for finding in findings]
    return [*lines, f"specdec results: {shown_path(directory)}"]


def _sweep(gate: GateRecord, comparisons: Mapping[str, Comparison]) -> str:
    from pytest_specdec.reporting.sweep_table import sweep_summary

    return sweep_summary([comparisons[key] for key in gate.points])


def _gate_row(gate: GateRecord, comparison: Comparison | None, summaries: Mapping[str, Summary]) -> tuple[str, ...]:
    summary = summaries.get(gate.comparison or "")
    at = comparison.load.at if comparison and gate.points else ""
    remark = {
        ("ok", "failed"): " (test failed)",
        ("unsure", "passed"): " (passed)",
        ("FAIL", "xfailed"): " (expected)",
        ("unsure", "xfailed"): " (expected)",
    }.get((gate.judgement, gate.outcome), "")
    gains = (verdict for verdict in gate.verdicts if verdict.requirement.objective == "tpot_gain")
    gain = next((verdict for verdict in gains if verdict.requirement.at == at), None)
    acceptance = summary.acceptance if summary else None
    length = acceptance.acceptance_length if acceptance else None
    return (
        gate.judgement + remark,
        f"{gate.nodeid} @ {at}" if at else gate.nodeid,
        gain_text(gain, summary.tpot_gain if summary else None),
        "-" if length is None else f"{length:.2f}",
        speedup_text(summary.speedup if summary else None),
    )


def _ranking_lines(comparisons: Mapping[str, Comparison]) -> list[str]:
    """Configs measured under the same conditions, the fastest first."""
    if len({comparison.config_id for comparison in comparisons.values()}) < 2:  # noqa: PLR2004 - nothing to rank
        return []
    from pytest_specdec.core.ranking import rankings, unranked

    tables = (["", *ranking_lines(ranking)] for ranking in rankings(comparisons.values()))
    return [*itertools.chain.from_iterable(tables), *map(unranked_line, unranked(comparisons.values()))]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, min(width, WIDE), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
