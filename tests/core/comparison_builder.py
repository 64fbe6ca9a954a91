"""Builds comparisons that obey the definitions exactly: a closed loop in time, streams, and counters that agree with them.

Without noise every request of an arm has exactly the TPOT and TTFT that were asked for. With it, prompts differ
(``prompt_spread``, the same in every round), rounds differ (``round_drift``) and requests differ (``noise``); all three are
sigmas of lognormal factors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import (
    ArmRun,
    ClientHealth,
    Comparison,
    RequestSample,
    RequestSpecStats,
    ServerCounters,
    ServerRecord,
    WorkloadRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specdec.core.samples import Arm


def build_comparison(
    *,
    tpot_base_ms: float = 10.0,
    tpot_spec_ms: float = 7.0,
    ttft_base_ms: float = 50.0,
    ttft_spec_ms: float | None = None,
    rounds: int = 4,
    requests: int = 16,
    tokens: int = 33,
    k: int = 3,
    acceptance: Sequence[float] = (0.8, 0.6, 0.4),
    coverage: float = 1.0,
    noise: float = 0.0,
    prompt_spread: float = 0.0,
    round_drift: float = 0.0,
    seed: int = 0,
    method: str | None = "eagle3",
    token_ids: bool = True,
    per_request_stats: bool = False,
    fresh: bool = False,
    load: LoadSpec | None = None,
) -> Comparison:
    """A valid comparison.

    Args:
        tpot_base_ms: Of every baseline request, before noise.
        tpot_spec_ms: Of every speculating request, before noise.
        ttft_base_ms: Likewise.
        ttft_spec_ms: As the baseline's when left out.
        rounds: Of both arms.
        requests: Per round, each with its own prompt.
        tokens: Of every answer.
        k: Drafted tokens per draft.
        acceptance: Joint, per position.
        coverage: Share of steps that draft.
        noise: Per request and round.
        prompt_spread: Per prompt, in the ratio of the arms too.
        round_drift: Per run.
        seed: Of acceptance and noise.
        method: As the config states it.
        token_ids: Whether the streams tell the tokens in each chunk.
        per_request_stats: Whether the server reports speculation per request.
        fresh: New prompts in every round.
        load: Conditions; a closed loop at concurrency 4 when left out.
    """
    load = load or LoadSpec(concurrency=4, num_requests=requests, max_tokens=tokens, rounds=rounds)
    load = replace(load, num_requests=requests)
    rng = np.random.default_rng([seed, 1])
    per_prompt = {arm: np.exp(prompt_spread * rng.standard_normal(requests)) for arm in ("baseline", "specdec")}
    runs: list[ArmRun] = []
    for index in range(rounds):
        order: list[Arm] = ["baseline", "specdec"] if index % 2 == 0 else ["specdec", "baseline"]
        for position, arm in enumerate(order):
            tpot_ms = tpot_base_ms if arm == "baseline" else tpot_spec_ms
            ttft_ms = ttft_base_ms if arm == "baseline" or ttft_spec_ms is None else ttft_spec_ms
            factors = per_prompt[arm] * np.exp(
                noise * rng.standard_normal(requests) + round_drift * rng.standard_normal()
            )
            prompts = range(index * requests, (index + 1) * requests) if fresh else range(requests)
            steps = [
                _steps(tokens, k, acceptance, coverage, np.random.default_rng([seed, 2, prompt]))
                if arm == "specdec"
                else [(1, 0, False)] * (tokens - 1)
                for prompt in prompts
            ]
            runs.append(
                _run(
                    arm,
                    index=index,
                    order=position,
                    load=load,
                    prompts=prompts,
                    steps=steps,
                    tpot_s=(tpot_ms * factors / 1000).tolist(),
                    ttft_s=(ttft_ms * factors / 1000).tolist(),
                    k=k,
                    token_ids=token_ids,
                    per_request_stats=per_request_stats,
                )
            )
    return Comparison(
        config_id=method or "guessed",
        method=method,
        num_speculative_tokens=k,
        load=load,
        workload=WorkloadRecord(name="chat", path="chat.jsonl", sha256="0" * 64, prompts=requests),
        servers=(
            ServerRecord("baseline", ("serve",), {}, "target", "0.26.0", "baseline.log", startup_s=30.0),
            ServerRecord("specdec", ("serve",), {}, "target", "0.26.0", "specdec.log", startup_s=45.0),
        ),
        runs=tuple(runs),
        plan_is_fresh=fresh,
    )


def change_samples(
    comparison: Comparison, change: Callable[[RequestSample], RequestSample], *, arm: Arm | None = None
) -> Comparison:
    """The same comparison with every sample (of one arm) replaced; the counters stay."""

    def changed(run: ArmRun) -> ArmRun:
        if arm is not None and run.arm != arm:
            return run
        return replace(run, samples=tuple(change(sample) for sample in run.samples))

    return replace(comparison, runs=tuple(changed(run) for run in comparison.runs))


def change_runs(comparison: Comparison, change: Callable[[ArmRun], ArmRun], *, arm: Arm | None = None) -> Comparison:
    """The same comparison with every run (of one arm) replaced."""
    return replace(
        comparison, runs=tuple(change(run) if arm is None or run.arm == arm else run for run in comparison.runs)
    )


def change_counters(comparison: Comparison, arm: Arm = "specdec", /, **counters: Any) -> Comparison:
    """The same comparison with some counters of every run of an arm replaced."""
    return change_runs(
        comparison,
        lambda run: replace(run, counters=replace(run.counters, **counters)),
        arm=arm,
    )


def scaled_in_time(comparison: Comparison, factor: float) -> Comparison:
    """The same comparison on a machine that is slower by a factor."""

    def slower(sample: RequestSample) -> RequestSample:
        return replace(
            sample,
            sent_s=factor * sample.sent_s,
            token_times_s=tuple(factor * time_s for time_s in sample.token_times_s),
        )

    def slower_run(run: ArmRun) -> ArmRun:
        counters = replace(
            run.counters,
            tpot_sum_s=factor * (run.counters.tpot_sum_s or 0),
            ttft_sum_s=factor * (run.counters.ttft_sum_s or 0),
        )
        return replace(run, counters=counters, duration_s=factor * run.duration_s)

    return change_runs(change_samples(comparison, slower), slower_run)


def _steps(
    tokens: int, k: int, acceptance: Sequence[float], coverage: float, rng: np.random.Generator
) -> list[tuple[int, int, bool]]:
    """Decode steps until ``tokens`` are written: delivered, accepted (before the end cuts it), drafted."""
    written, steps = 1, []
    while written < tokens:
        drafted = bool(rng.random() < coverage)
        drawn = rng.random()
        accepted = sum(drawn < share for share in acceptance[:k]) if drafted else 0
        delivered = min(accepted + 1, tokens - written)
        steps.append((delivered, accepted, drafted))
        written += delivered
    return steps


def _run(
    arm: Arm,
    *,
    index: int,
    order: int,
    load: LoadSpec,
    prompts: range,
    steps: list[list[tuple[int, int, bool]]],
    tpot_s: Sequence[float],
    ttft_s: Sequence[float],
    k: int,
    token_ids: bool,
    per_request_stats: bool,
) -> ArmRun:
    slots = [0.0] * (load.concurrency or 1)
    samples = []
    for place, prompt in enumerate(prompts):
        delivered = [one for one, _, _ in steps[place]]
        tokens = 1 + sum(delivered)
        slot = slots.index(min(slots))
        due_s = None if load.request_rate is None else place / load.request_rate
        sent_s = slots[slot] if due_s is None else due_s
        first_s = sent_s + ttft_s[place]
        step_s = tpot_s[place] * (tokens - 1) / max(len(delivered), 1)
        times_s = tuple(float(first_s + step_s * done) for done in range(len(delivered) + 1))
        slots[slot] = times_s[-1]
        accepted = tuple(one for _, one, drafted in steps[place] if drafted)
        samples.append(
            RequestSample(
                index=place,
                prompt=prompt,
                category=None,
                due_s=due_s,
                sent_s=sent_s,
                token_times_s=times_s,
                chunk_tokens=(1, *delivered) if token_ids else None,
                prompt_tokens=20,
                completion_tokens=tokens,
                finish_reason="length",
                spec=RequestSpecStats(len(accepted), k * len(accepted), sum(accepted), accepted)
                if per_request_stats and arm == "specdec"
                else None,
            )
        )
    every = [step for one in steps for step in one]
    drafts = sum(drafted for _, _, drafted in every)
    speculating = arm == "specdec"
    return ArmRun(
        arm=arm,
        round=index,
        order=order,
        started_unix_s=0.0,
        duration_s=max(sample.token_times_s[-1] for sample in samples),
        samples=tuple(samples),
        counters=ServerCounters(
            drafts=drafts if speculating else None,
            draft_tokens=k * drafts if speculating else None,
            accepted_tokens=sum(accepted for _, accepted, _ in every) if speculating else None,
            accepted_per_position=tuple(sum(accepted > i for _, accepted, _ in every) for i in range(k))
            if speculating
            else None,
            decode_steps=len(every),
            generation_tokens=sum(sample.completion_tokens for sample in samples),
            finished_requests=len(samples),
            tpot_sum_s=float(
                sum(
                    (sample.token_times_s[-1] - sample.token_times_s[0]) / max(sample.completion_tokens - 1, 1)
                    for sample in samples
                )
            ),
            tpot_count=len(samples),
            ttft_sum_s=sum(ttft_s),
            ttft_count=len(samples),
        ),
        client=ClientHealth(max_loop_lag_s=0.001, p99_loop_lag_s=0.0005, cpu_share=0.2),
        prefix_cache_reset=True,
    )
