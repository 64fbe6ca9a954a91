"""Many seeded samples of the first tokens from both servers, beside the timed rounds, for ``lossless=True`` at a temperature above 0."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.answer_pass import ask_arm, ready_arm
from pytest_specdec.core.distributions import PROMPTS, SAMPLES, TOKENS
from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.sampled_lossless import judge_distributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Arm, Comparison, RequestSample
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.workload import Workload
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.progress import Progress
    from pytest_specdec.stage import Stage

_MIN_CONCURRENCY = 32
"""One or a few at a time, thousands of short answers would take longer than the gate."""
_MOST_SAMPLES = 512
"""Of one prompt: more samples of few prompts say little about the others."""
_SEEDS = 4
"""The stream of random numbers for seeds of samples; 1 to 3 are those of the plan of requests."""


def compare_sampled(measurement: Measurement, stage: Stage, progress: Progress) -> Comparison:
    """The comparison with sampled answers tested against each other; sampled once, however often it is judged.

    Args:
        measurement: With at least one round.
        stage: Its servers.
        progress: Told what goes on.

    Raises:
        CannotMeasure: Requests failed, a server tells no token ids, or it is gone.
    """
    if measurement.sampled is None:
        load = measurement.load
        plan = sampling_plan(measurement.workload, load)
        asked = sampling_load(load, len(plan))
        began = time.monotonic()
        # The baseline last, in two passes: where it drifts, its halves differ, and that calibrates the tests.
        halves = (plan[: len(plan) // 2], plan[len(plan) // 2 :])

        def ask(arm: Arm, plan: Sequence[PlannedRequest]) -> tuple[RequestSample, ...]:
            what = f"samples of {arm}, {len(plan)} answers of {asked.max_tokens} tokens"
            doing = "answers were sampled"
            samples = ask_arm(measurement, stage, progress, arm=arm, plan=plan, load=asked, what=what, doing=doing)
            _refuse_without_tokens(arm, samples, str(ready_arm(measurement, stage, arm).log_path))
            return samples

        spec, base = ask("specdec", plan), [ask("baseline", half) for half in halves]
        measurement.sampled = judge_distributions(
            _by_prompt(spec),
            _by_prompt([sample for half in base for sample in half]),
            (_by_prompt(base[0]), _by_prompt(base[1])),
            tokens=asked.max_tokens,
            confidence=load.confidence,
            temperature=load.temperature,
            concurrency=asked.concurrency or 1,
            duration_s=time.monotonic() - began,
        )
    return measurement.comparison()


def sampling_plan(workload: Workload, load: LoadSpec) -> list[PlannedRequest]:
    """The requests of a sampling pass, the same for both servers: every prompt once, then every prompt again with another seed."""
    import numpy as np

    from pytest_specdec.load.arrivals import PlannedRequest, prompt_order

    prompts = prompt_order(workload, load, count=min(PROMPTS, len(workload.prompts)))
    each = min(_MOST_SAMPLES, math.ceil(PROMPTS * SAMPLES / len(prompts)))
    seeds = np.random.default_rng([load.seed, _SEEDS]).choice(
        2**31, size=each * len(prompts), replace=False, shuffle=False
    )
    return [
        PlannedRequest(
            index=index,
            prompt=prompts[index % len(prompts)],
            due_s=None,
            max_tokens=min(TOKENS, load.max_tokens),
            seed=int(seed),
        )
        for index, seed in enumerate(seeds)
    ]


def sampling_load(load: LoadSpec, requests: int) -> LoadSpec:
    """How the samples are asked for: several at once, whatever the load is."""
    concurrency = max(_MIN_CONCURRENCY, load.concurrency or 0)
    return replace(
        load,
        concurrency=concurrency,
        request_rate=None,
        num_requests=requests,
        max_tokens=min(TOKENS, load.max_tokens),
    )


def _refuse_without_tokens(arm: Arm, samples: Iterable[RequestSample], log: str) -> None:
    if any(sample.token_ids is None for sample in samples if sample.error is None):
        raise InvalidMeasurement(
            f"the {arm} server tells no token ids, so sampled answers cannot be compared",
            where=log,
            remedy="Connect to vLLM itself: a proxy may drop return_token_ids from requests or answers.",
        )


def _by_prompt(samples: Iterable[RequestSample]) -> dict[int, list[tuple[int, ...]]]:
    answers: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for sample in samples:
        if sample.token_ids is not None and sample.error is None:
            answers[sample.prompt].append(sample.token_ids)
    return answers
