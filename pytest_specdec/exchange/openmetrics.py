"""Results as OpenMetrics text, for a Pushgateway, a textfile collector or anything else that Prometheus scrapes.

Gauges only, in base units: seconds, fractions, tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pytest_specdec.core.samples import ARMS
from pytest_specdec.core.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from pytest_specdec.core.results import ResultDocument

_MEASURED = ("comparison", "config", "workload", "load")
_JUDGED = ("gate", "config", "objective")


def openmetrics_text(document: ResultDocument) -> str:
    """The whole exposition, its ``# EOF`` included."""
    registry = CollectorRegistry()
    registry.register(_Results(document))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call] # the library's
    return text.decode()


class _Results(Collector):
    """Holds what one result file says; collected once."""

    def __init__(self, document: ResultDocument) -> None:
        self._document = document

    def collect(self) -> Iterable[Metric]:
        created = GaugeMetricFamily("specdec_result_created_timestamp_seconds", "When the session started")
        created.add_metric([], self._document.created_unix_s)
        return [created, *self._measured(), *self._judged()]

    def _measured(self) -> Sequence[Metric]:
        by_arm = (*_MEASURED, "arm")
        tpot = _gauge("specdec_tpot_seconds", "Time per output token, geometric mean over paired requests", by_arm)
        ttft = _gauge("specdec_ttft_p95_seconds", "95th percentile of the time to first token", by_arm)
        rate = _gauge("specdec_output_tokens_per_second", "Output throughput over the steady window", by_arm)
        gain = _gauge("specdec_tpot_gain_ratio", "1 - TPOT with speculation / TPOT without", _MEASURED)
        length = _gauge("specdec_acceptance_length", "Tokens per drafting step, bonus token included", _MEASURED)
        share = _gauge("specdec_acceptance_ratio", "Accepted tokens / drafted tokens", _MEASURED)
        joint = _gauge(
            "specdec_accepted_at_position_ratio", "Drafts accepted up to a position", (*_MEASURED, "position")
        )
        foreign = _gauge("specdec_foreign_traffic", "1 where others could use the servers meanwhile", _MEASURED)
        for key, one in self._document.comparisons.items():
            summary, labels = summarise(one), [key, one.config_id, one.workload.name, one.load.at]
            for arm in ARMS:
                figures = summary.baseline if arm == "baseline" else summary.specdec
                _add(tpot, [*labels, arm], figures.tpot_s)
                _add(ttft, [*labels, arm], figures.ttft_p95_s)
                _add(rate, [*labels, arm], figures.throughput_tok_s)
            _add(gain, labels, summary.tpot_gain)
            _add(foreign, labels, 1.0 if one.foreign_traffic else None)
            if summary.acceptance is not None:
                _add(length, labels, summary.acceptance.acceptance_length)
                _add(share, labels, summary.acceptance.acceptance_rate)
                for position, value in enumerate(summary.acceptance.per_position or ()):
                    _add(joint, [*labels, str(position)], value)
        return [tpot, ttft, rate, gain, length, share, joint, *([foreign] if foreign.samples else [])]

    def _judged(self) -> Sequence[Metric]:
        unit = (*_JUDGED, "unit")
        measured = _gauge("specdec_objective_measured", "What was measured, in the objective's unit", unit)
        required = _gauge("specdec_objective_required", "What is required, likewise", unit)
        low = _gauge("specdec_objective_low", "Lower end of the interval, where something bounds it", unit)
        high = _gauge("specdec_objective_high", "Upper end of the interval, likewise", unit)
        outcome = _gauge(
            "specdec_objective_outcome", "1 for the outcome in the label: ok, FAIL or unsure", (*_JUDGED, "outcome")
        )
        for gate in self._document.gates:
            for verdict in gate.verdicts:
                labels = [gate.nodeid, gate.config_id, verdict.requirement.label]
                for family, value in (
                    (measured, verdict.estimate.value),
                    (required, verdict.requirement.required),
                    (low, verdict.estimate.low),
                    (high, verdict.estimate.high),
                ):
                    _add(family, [*labels, verdict.unit], value)
                _add(outcome, [*labels, verdict.outcome], 1.0)
        return [measured, required, low, high, outcome]


def _gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _add(family: GaugeMetricFamily, labels: Sequence[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)
