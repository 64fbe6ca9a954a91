"""Prometheus' text format as its Python client writes it: order of labels, ``_created`` lines, form of numbers.

Written here, without that client, so that the stand-in server starts fast and its counters can be made wrong on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Samples = list[tuple[dict[str, str], float]]


class Histogram:
    """Observations in buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.count = 0
        self.sum = 0.0
        self._buckets = [0] * len(bounds)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.count += 1
        self.sum += value
        for index, bound in enumerate(self.bounds):
            if value <= bound:
                self._buckets[index] += 1
                break

    def cumulative(self) -> list[tuple[str, int]]:
        """(``le``, observations up to it), ``+Inf`` last."""
        total, lines = 0, []
        for bound, count in zip(self.bounds, self._buckets, strict=True):
            total += count
            lines.append((number(bound), total))
        return [*lines, ("+Inf", self.count)]


class Exposition:
    """Text in Prometheus' format, family by family."""

    def __init__(self, created_unix_s: float) -> None:
        self._created = created_unix_s
        self._lines: list[str] = []

    def gauge(self, name: str, documentation: str, samples: Samples) -> None:
        """Add a gauge."""
        self._family(name, documentation, "gauge", ((name, labels, value) for labels, value in samples))

    def counter(self, name: str, documentation: str, samples: Samples) -> None:
        """Add a counter and its ``_created`` gauge."""
        total = f"{name}_total"
        self._family(total, documentation, "counter", ((total, labels, value) for labels, value in samples))
        self._add_created(name, documentation, [labels for labels, _ in samples])

    def histogram(self, name: str, documentation: str, samples: list[tuple[dict[str, str], Histogram]]) -> None:
        """Add a histogram and its ``_created`` gauge."""
        lines: list[tuple[str, dict[str, str], float]] = []
        for labels, histogram in samples:
            lines += [(f"{name}_bucket", {**labels, "le": le}, count) for le, count in histogram.cumulative()]
            lines += [(f"{name}_count", labels, histogram.count), (f"{name}_sum", labels, histogram.sum)]
        self._family(name, documentation, "histogram", lines)
        self._add_created(name, documentation, [labels for labels, _ in samples])

    def text(self) -> str:
        """Everything added so far."""
        return "\n".join(self._lines) + "\n"

    def _add_created(self, name: str, documentation: str, labels: list[dict[str, str]]) -> None:
        created = f"{name}_created"
        self._family(created, documentation, "gauge", ((created, each, self._created) for each in labels))

    def _family(
        self, name: str, documentation: str, kind: str, samples: Iterable[tuple[str, Mapping[str, str], float]]
    ) -> None:
        self._lines += [f"# HELP {name} {documentation}", f"# TYPE {name} {kind}"]
        self._lines += [f"{sample}{_labels(labels)} {number(value)}" for sample, labels, value in samples]


def number(value: float) -> str:
    """A number as Prometheus' Python client writes it: ``23.0``, ``1.79e+09``."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6 and "e" not in text:  # noqa: PLR2004 - the client switches at seven digits
        digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{digits}e+0{dot - 1}"
    return text


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (name, value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))
        for name, value in sorted(labels.items())
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"
