"""Results as github-action-benchmark reads them: its ``customBiggerIsBetter`` and ``customSmallerIsBetter`` tools, a file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.results import ResultDocument
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Direction, Verdict

_PERCENT = 100


def benchmark_entries(document: ResultDocument, direction: Direction) -> list[dict[str, Any]]:
    """One entry a series: the figures of every measurement, then every objective of every gate.

    Args:
        document: What was measured and judged.
        direction: ``higher`` for what is better when bigger, ``lower`` for the rest; one file must not hold both.
    """
    entries = [entry for key, one in document.comparisons.items() for entry in _figures(key, one, direction)]
    for gate in document.gates:
        entries += [_objective(gate.nodeid, verdict) for verdict in gate.verdicts if verdict.direction == direction]
    return entries


def _figures(key: str, comparison: Comparison, direction: Direction) -> Iterator[dict[str, Any]]:
    summary = summarise(comparison)
    at = f"{key} @ {comparison.load.at}" + (" (foreign traffic)" if comparison.foreign_traffic else "")
    length = summary.acceptance.acceptance_length if summary.acceptance else None
    figures: list[tuple[Direction, str, float | None, float, str]] = [
        ("higher", "TPOT gain", summary.tpot_gain, _PERCENT, "%"),
        ("higher", "throughput", summary.specdec.throughput_tok_s, 1, "tok/s"),
        ("higher", "acceptance length", length, 1, "tokens"),
        ("lower", "TPOT", summary.specdec.tpot_s, 1000, "ms"),
        ("lower", "TTFT p95", summary.specdec.ttft_p95_s, 1000, "ms"),
    ]
    for way, name, value, scale, unit in figures:
        if way == direction and value is not None:
            yield {"name": f"{at}: {name}", "unit": unit, "value": scale * value}


def _objective(nodeid: str, verdict: Verdict) -> dict[str, Any]:
    scale, unit = (_PERCENT, "%") if verdict.unit == "fraction" else (1, verdict.unit)
    estimate = verdict.estimate
    entry = {"name": f"{nodeid}: {verdict.requirement.label}", "unit": unit, "value": scale * estimate.value}
    if estimate.low is not None and estimate.high is not None:
        entry["range"] = f"{scale * estimate.low:.4g} .. {scale * estimate.high:.4g}"
    sign = ">=" if verdict.direction == "higher" else "<="
    entry["extra"] = f"{verdict.outcome}: required {sign} {scale * verdict.requirement.required:.10g}"
    return entry
