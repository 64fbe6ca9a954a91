"""``llm.get_metrics()`` of vLLM's offline engine as counters: the families of ``/metrics``, without its suffixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.metric_names import COUNTS, PER_POSITION
from pytest_specdec.core.samples import ServerCounters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def counters_of(metrics: Sequence[Mapping[str, Any]]) -> ServerCounters:
    """Summed over engines and labels; what the engine does not count is None.

    Args:
        metrics: ``name`` and ``value`` of a Counter, ``values`` of a Vector, ``count`` of a Histogram.
    """
    counts: dict[str, int] = {}
    for field, family in COUNTS.items():
        name, key = (
            (family.removesuffix("_count"), "count")
            if family.endswith("_count")
            else (family.removesuffix("_total"), "value")
        )
        found = [metric[key] for metric in metrics if metric["name"] == name and key in metric]
        if found:
            counts[field] = int(sum(found))
    vectors = [metric["values"] for metric in metrics if metric["name"] == PER_POSITION.removesuffix("_total")]
    width = max(map(len, vectors), default=0)
    return ServerCounters(
        accepted_per_position=tuple(
            sum(int(vector[place]) for vector in vectors if place < len(vector)) for place in range(width)
        )
        or None,
        **counts,
    )
