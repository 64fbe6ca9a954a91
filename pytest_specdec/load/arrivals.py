"""Which requests are sent, in which order and when: fixed by the load's seed, the same for both arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.mixing import mixed_order, short_classes

if TYPE_CHECKING:
    import numpy as np

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.load.prompt_reader import Prompt
    from pytest_specdec.load.workload import Workload

# One stream of random numbers for each use, so that the arrival times do not depend on the number of prompts.
_CHOICE, _ARRIVALS, _SAMPLING = 1, 2, 3
_MAX_SAMPLING_SEED = 2**31  # what every sampler accepts
SPARE_PLANS = 2
"""Fresh plans beyond those of ``max_rounds`` that a warm-up leaves alone, for rounds that have to be measured again."""


@dataclass(frozen=True)
class PlannedRequest:
    """One request, decided before the run."""

    index: int
    prompt: Prompt
    due_s: float | None
    """Arrival after the start of the window (open loop); None in a closed loop."""
    max_tokens: int
    seed: int
    """For the sampler of the server; sent with greedy requests too."""
    after: int | None = None
    """The request whose answer this one continues: it is sent when that one has ended."""


def plan_requests(workload: Workload, load: LoadSpec, *, round_index: int, fresh: bool) -> tuple[PlannedRequest, ...]:
    """The requests of one round, ``load.num_requests`` of them, in the order in which they are sent.

    Prompts are drawn without replacement; only when there are more requests than prompts does another pass over all of
    them, in a new order, follow. Every round gets the same requests, and every round the same arrival times.

    Conversations that continue with a server's own answers stay together, their turns in order; the last one may be cut. Each turn takes
    a place in the order, and of its conversation only the first has an arrival time.

    Args:
        workload: Where the prompts come from.
        load: How many, at which rate, with which seed.
        round_index: From 0; matters only to a fresh plan.
        fresh: Take prompts that no earlier round had: for servers that learn from their answers.

    Raises:
        WorkloadError: A fresh plan needs more prompts than there are.
    """
    start = 0
    if fresh:
        start = round_index * load.num_requests
        needed = start + load.num_requests
        if any(prompt.answers for prompt in workload.prompts):
            raise WorkloadError(
                "`multi_turn: own` cannot be combined with rounds that need prompts of their own",
                where=str(workload.path),
                remedy="Set suffix_decoding_max_cached_requests to 0, or use `multi_turn: recorded`.",
            )
        short = short_classes(workload, needed) if workload.mix else []
        if short or needed > len(workload.prompts):
            raise WorkloadError(
                f"round {round_index + 1} needs prompts that no earlier round had: "
                + (", ".join(short) or f"{needed} in all, the workload has {len(workload.prompts)}"),
                where=str(workload.path),
                remedy=f"Provide {load.max_rounds * load.num_requests} prompts for {load.max_rounds} rounds of "
                f"{load.num_requests}, or lower num_requests or max_rounds.",
            )
    chosen = prompt_order(workload, load, count=start + load.num_requests)[start:]
    seeds = _generator(load, _SAMPLING).integers(_MAX_SAMPLING_SEED, size=load.num_requests)
    return tuple(
        PlannedRequest(
            index=index,
            prompt=prompt,
            due_s=None if prompt.answers else due_s,
            max_tokens=prompt.max_tokens if prompt.max_tokens is not None else load.max_tokens,
            seed=int(seed),
            after=index - 1 if prompt.answers else None,
        )
        for index, (prompt, due_s, seed) in enumerate(zip(chosen, _due_times_s(load), seeds, strict=True))
    )


def has_spare_plan(workload: Workload, load: LoadSpec, *, spoilt: int) -> bool:
    """Whether all ``load.max_rounds`` rounds can still take fresh prompts when yet another plan is spoilt."""
    if spoilt >= SPARE_PLANS:
        return False
    try:
        plan_requests(workload, load, round_index=load.max_rounds + spoilt, fresh=True)
    except WorkloadError:
        return False
    return True


def plan_notes(workload: Workload, load: LoadSpec) -> tuple[str, ...]:
    """What a report must say about the plan: prompts that are sent more than once in a round."""
    short = short_classes(workload, load.num_requests) if workload.mix else []
    if short:
        return (f"prompts are sent more than once in a round: {', '.join(short)}",)
    if load.num_requests <= len(workload.prompts):
        return ()
    counts = f"{load.num_requests} requests from {len(workload.prompts)} prompts of workload {workload.name}"
    return (f"{counts}: prompts are sent more than once in a round",)


def prompt_order(workload: Workload, load: LoadSpec, *, count: int) -> list[Prompt]:
    """The first ``count`` prompts of the seeded order: shuffled passes over the workload, one after the other."""
    generator = _generator(load, _CHOICE)
    if workload.mix:
        return mixed_order(workload, load.num_requests, count=count, generator=generator)
    pieces: list[list[Prompt]] = []
    for prompt in workload.prompts:
        if prompt.answers:
            pieces[-1].append(prompt)
        else:
            pieces.append([prompt])
    order: list[Prompt] = []
    while len(order) < count:
        for place in generator.permutation(len(pieces)):
            order += pieces[place]
    return order[:count]


def _due_times_s(load: LoadSpec) -> list[float | None]:
    """Poisson arrivals, the first at 0 and the last at ``(num_requests - 1) / request_rate``.

    The gaps are scaled to that span, as ``vllm bench serve`` does: a few dozen exponential gaps would else be 10 or
    20 % off the declared rate.
    """
    if load.request_rate is None or load.num_requests < 2:  # noqa: PLR2004 - a single request has no gap
        return [None if load.request_rate is None else 0.0] * load.num_requests
    gaps = _generator(load, _ARRIVALS).exponential(size=load.num_requests - 1)
    span_s = (load.num_requests - 1) / load.request_rate
    due_s = gaps.cumsum() * (span_s / gaps.sum())
    return [0.0, *(float(time_s) for time_s in due_s)]


def _generator(load: LoadSpec, stream: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng([load.seed, stream])
