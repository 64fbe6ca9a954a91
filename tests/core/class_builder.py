"""Builds comparisons whose prompts belong to classes that accept differently, out of comparisons of one class each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.metrics import pooled_counters
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.core.samples import ArmRun, Comparison, RequestSample

CODE = {"acceptance": (0.9, 0.8, 0.7), "tpot_spec_ms": 5.0}
CHAT = {"acceptance": (0.4, 0.2, 0.1), "tpot_spec_ms": 9.0}


def build_classes(
    classes: Mapping[str, dict[str, Any]], *, weights: dict[str, float] | None = None, **every: Any
) -> Comparison:
    """A valid comparison of several classes in one load.

    Args:
        classes: By name, what :func:`build_comparison` is told of each: ``requests``, ``acceptance``, ...
        weights: The workload's.
        every: Told of all.
    """
    parts = {
        name: build_comparison(**({"seed": place} | every | own)) for place, (name, own) in enumerate(classes.items())
    }
    first = next(iter(parts.values()))
    runs = tuple(_joined(parts, index) for index in range(len(first.runs)))
    requests = len(runs[0].samples)
    return replace(
        first,
        runs=runs,
        load=replace(first.load, num_requests=requests),
        workload=replace(
            first.workload, name="mixed", prompts=sum(one.workload.prompts for one in parts.values()), weights=weights
        ),
    )


def _joined(parts: Mapping[str, Comparison], index: int) -> ArmRun:
    samples: list[RequestSample] = []
    for place, (name, part) in enumerate(parts.items()):
        for sample in part.runs[index].samples:
            # Prompts of a class are numbered far from those of the others, whatever number of them a fresh plan takes.
            samples.append(replace(sample, index=len(samples), prompt=10_000 * place + sample.prompt, category=name))
    runs = [part.runs[index] for part in parts.values()]
    return replace(
        runs[0],
        samples=tuple(samples),
        counters=pooled_counters(run.counters for run in runs),
        duration_s=max(run.duration_s for run in runs),
    )


def two_classes(*, code: int = 16, chat: int = 16, weights: dict[str, float] | None = None, **every: Any) -> Comparison:
    """``code`` accepts much and ``chat`` little."""
    return build_classes(
        {"code": CODE | {"requests": code}, "chat": CHAT | {"requests": chat}}, weights=weights, **every
    )
