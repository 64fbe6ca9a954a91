"""Several workloads as one: every round has the same number of requests of each, whose name becomes the prompts' class."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.sampling import largest_remainder
from pytest_specdec.load.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from pytest_specdec.load.prompt_reader import Prompt


def mixed(
    name: str, parts: Sequence[Workload], *, shares: Mapping[str, float], weights: Mapping[str, float] | None
) -> Workload:
    """One workload of several.

    Args:
        name: Of the whole.
        parts: Read already; their names become classes, and replace the categories of their prompts.
        shares: Of each part in every round's requests, together 1.
        weights: Of each part in the traffic, where they are known.

    Raises:
        WorkloadError: A part's conversations go on with a server's own answers, so that its turns cannot be shared out.
    """
    for part in parts:
        if any(prompt.answers for prompt in part.prompts):
            raise WorkloadError(
                "`multi_turn: own` cannot be combined with other workloads in one test",
                where=str(part.path),
                remedy="Measure it in a test of its own, or use `multi_turn: recorded`.",
            )
    prompts = [replace(prompt, category=part.name) for part in parts for prompt in part.prompts]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.name} {shares[part.name]:.12g} {part.sha256}\n".encode())
    return Workload(
        name=name,
        path=Path(" + ".join(str(part.path) for part in parts)),
        sha256=digest.hexdigest(),
        prompts=tuple(replace(prompt, index=index) for index, prompt in enumerate(prompts)),
        notes=tuple(f"{part.name}: {note}" for part in parts for note in part.notes),
        weights=weights,
        format="; ".join(dict.fromkeys(part.format for part in parts)),
        mix=shares,
    )


def requests_of_classes(workload: Workload, num_requests: int) -> Mapping[str, int]:
    """How many of a round's requests each part of a mixed workload has.

    Raises:
        WorkloadError: One has none.
    """
    shares = workload.mix or {}
    counts = {str(name): count for name, count in largest_remainder(num_requests, shares).items()}
    none = [name for name, count in counts.items() if not count]
    if none:
        raise WorkloadError(
            f"workload {workload.name}: {num_requests} requests leave none for {', '.join(none)}",
            remedy=f"Set num_requests to at least {math.ceil(1 / min(shares.values()))}.",
        )
    return counts


def mixed_order(workload: Workload, num_requests: int, *, count: int, generator: np.random.Generator) -> list[Prompt]:
    """The first ``count`` prompts of the seeded order: rounds of ``num_requests``, each part with its number in every one."""
    counts = requests_of_classes(workload, num_requests)
    passes = {
        name: _passes([prompt for prompt in workload.prompts if prompt.category == name], generator) for name in counts
    }
    order: list[Prompt] = []
    while len(order) < count:
        block = [prompt for name, number in counts.items() for prompt in itertools.islice(passes[name], number)]
        order.extend(block[place] for place in generator.permutation(len(block)))
    return order[:count]


def short_classes(workload: Workload, num_requests: int) -> list[str]:
    """Parts with fewer prompts than ``num_requests`` in all would give them: ``96 of chat, which has 80``."""
    there = Counter(prompt.category for prompt in workload.prompts)
    wanted = requests_of_classes(workload, num_requests)
    return [f"{count} of {name}, which has {there[name]}" for name, count in wanted.items() if count > there[name]]


def _passes(prompts: Sequence[Prompt], generator: np.random.Generator) -> Iterator[Prompt]:
    """Endless: all of them in one random order after the other."""
    while True:
        yield from (prompts[place] for place in generator.permutation(len(prompts)))
