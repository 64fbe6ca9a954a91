"""Runs of another load generator as the two arms of a comparison, and what may be judged of it."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement, ResultFileError
from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.samples import ARMS, ArmRun, ClientHealth, Comparison, WorkloadRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.samples import Arm
    from pytest_specdec.core.verdict import Requirement, Verdict
    from pytest_specdec.exchange.foreign_run import Fact, ForeignRun

_FACTS: dict[str, tuple[Fact, ...]] = {
    "tpot_gain": (),
    "ttft_gain": (),
    "e2el_gain": (),
    "goodput_gain": (),
    "min_goodput": (),
    "throughput_gain": ("chunk times", "load"),
    "min_throughput_tok_s": ("chunk times", "load"),
    "min_acceptance_length": ("acceptance",),
    "min_acceptance_rate": ("acceptance",),
    "min_acceptance_at": ("positions",),
    **{name: () for name in REGISTRY if name.startswith(("ttft_", "tpot_", "e2el_")) and name.endswith("_ms")},
    **{name: ("chunk times",) for name in REGISTRY if name.startswith("chunk_gap_")},
}
"""What each objective needs; one that is not here needs what none of these files holds."""
_NOT_HERE = {
    "itl": "the tokens in every chunk: what vllm bench serve and others call ITL is chunk_gap_* or tpot_* here",
    "min_tokens_per_step": "the server's number of decode steps",
    "min_draft_coverage": "the server's number of decode steps",
    "lossless": "token ids",
    "min_output_match": "token ids",
    "max_loop_share": "token ids",
}
_TIMELESS = "speculation"
"""The kind of objective whose figures do not depend on how fast the machine was that minute."""


def comparison_of(baseline: Sequence[ForeignRun], specdec: Sequence[ForeignRun]) -> Comparison:
    """Both arms, the first run of one against the first of the other, and so on: rounds.

    Raises:
        ResultFileError: The arms do not hold equally many runs.
        InvalidMeasurement: The runs were not made under the same conditions.
    """
    if len(baseline) != len(specdec):
        raise ResultFileError(
            f"{len(baseline)} runs of the baseline and {len(specdec)} of the speculating server",
            remedy="Give equally many of both, in the order in which they were made: the first is held against the first.",
        )
    runs = [*baseline, *specdec]
    _check_conditions(runs)
    first = specdec[0]
    size = len(first.samples)
    load = LoadSpec(
        concurrency=first.concurrency if first.concurrency or first.request_rate else size,
        request_rate=first.request_rate,
        num_requests=size,
        rounds=len(baseline),
        max_rounds=len(baseline),
        ignore_eos=_equal_lengths(baseline, specdec),
    )
    lengths = json.dumps([one.prompt_tokens for one in first.samples])
    return Comparison(
        config_id="specdec",
        method=None,
        num_speculative_tokens=None,
        load=load,
        workload=WorkloadRecord(first.tool, first.where, hashlib.sha256(lengths.encode()).hexdigest(), size),
        servers=(),
        runs=tuple(_arm_runs("baseline", baseline)) + tuple(_arm_runs("specdec", specdec)),
        notes=tuple(_notes(baseline, specdec)),
        extra=dict(_untold(specdec)),
    )


def conditions_of(specdec: Sequence[ForeignRun]) -> str:
    """``vllm bench serve: 2 runs of 12 requests of each arm, at concurrency 4``."""
    first, runs = specdec[0], len(specdec)
    at = f", at concurrency {first.concurrency}" if first.concurrency else ""
    at = f", at {first.request_rate:g} per second" if first.request_rate else at
    return f"{first.tool}: {runs} run{'s' if runs > 1 else ''} of {len(first.samples)} requests of each arm{at}"


def judge_arms(
    comparison: Comparison, requirements: Sequence[Requirement], specdec: Sequence[ForeignRun]
) -> tuple[Verdict, ...]:
    """Verdicts; with a single run of each arm nothing is known of how runs differ, so times stay unsure.

    Raises:
        CannotMeasure: The files lack what an objective needs, or hold numbers that must not be believed.
    """
    for requirement in requirements:
        _check_told(requirement, comparison, specdec)
    verdicts = judge(comparison, requirements)
    return verdicts if comparison.rounds > 1 else tuple(map(_of_one_run, verdicts))


def _of_one_run(verdict: Verdict) -> Verdict:
    if REGISTRY[verdict.requirement.objective].kind == _TIMELESS:
        return verdict
    estimate = replace(
        verdict.estimate, low=None, high=None, basis="one run of each arm", limited_by="rounds", needed_requests=None
    )
    advice = "one run of each arm does not tell how much runs differ; make two or more of both, in turns"
    return replace(verdict, estimate=estimate, outcome="unsure", advice=advice)


def _check_told(requirement: Requirement, comparison: Comparison, specdec: Sequence[ForeignRun]) -> None:
    name = requirement.objective
    if name not in _FACTS:
        what = next(
            (text for start, text in _NOT_HERE.items() if name.startswith(start)), "what such files do not hold"
        )
        raise CannotMeasure(
            f"{name} cannot be judged from {specdec[0].tool}'s files: it needs {what}",
            remedy="Measure with pytest --specdec-config instead.",
        )
    for fact in _FACTS[name]:
        for run in specdec:
            if fact in run.missing:
                raise CannotMeasure(f"{name} needs {_words(fact)}: {run.missing[fact]}", where=run.where)
    if "throughput" in name and comparison.load.open_loop:
        raise CannotMeasure(
            f"{name}: these runs came at a request rate, and the files do not tell whether it saturated the server",
            remedy="Run a closed loop: --max-concurrency without --request-rate.",
        )


def _words(fact: Fact) -> str:
    return {
        "acceptance": "the server's counts of drafts",
        "positions": "acceptance by position",
        "chunk times": "the time of every chunk",
        "load": "the load under which the runs were made",
    }[fact]


def _check_conditions(runs: Sequence[ForeignRun]) -> None:
    """Everything that the files tell of the conditions is equal.

    Raises:
        InvalidMeasurement: With what differs, and in which files.
    """
    first = runs[0]
    for run in runs[1:]:
        for what, one, other in (
            ("tool", first.tool, run.tool),
            ("model", first.model, run.model),
            ("number of requests", len(first.samples), len(run.samples)),
            ("concurrency", first.concurrency, run.concurrency),
            ("request rate", first.request_rate, run.request_rate),
        ):
            if one != other:
                raise InvalidMeasurement(
                    f"the runs differ in more than speculation: {what} {one} in {first.where}, {other} in {run.where}",
                    remedy="Run the load generator with the same arguments against both servers.",
                )
        for a, b in zip(first.samples, run.samples, strict=True):
            if None not in (a.prompt_tokens, b.prompt_tokens) and a.prompt_tokens != b.prompt_tokens:
                raise InvalidMeasurement(
                    f"the arms did not get the same requests: the prompt of request {a.index} has {a.prompt_tokens} tokens in "
                    f"{first.where}, {b.prompt_tokens} in {run.where}",
                    remedy="Run the load generator with the same data set and seed against both servers.",
                )


def _equal_lengths(baseline: Sequence[ForeignRun], specdec: Sequence[ForeignRun]) -> bool:
    """Whether every answer is as long in one arm as in the other, so that whole latencies compare."""
    return all(
        [one.completion_tokens for one in base.samples] == [one.completion_tokens for one in spec.samples]
        for base, spec in zip(baseline, specdec, strict=True)
    )


def _arm_runs(arm: Arm, runs: Sequence[ForeignRun]) -> Iterator[ArmRun]:
    for number, run in enumerate(runs):
        yield ArmRun(
            arm=arm,
            round=number,
            order=ARMS.index(arm),
            started_unix_s=run.started_unix_s,
            duration_s=run.duration_s,
            samples=run.samples,
            counters=run.counters,
            client=ClientHealth(max_loop_lag_s=0.0, p99_loop_lag_s=0.0, cpu_share=0.0),
        )


def _untold(specdec: Sequence[ForeignRun]) -> Iterator[tuple[str, str]]:
    """What no check and no figure may take for granted."""
    if all(run.counters.drafts is None and not run.counts_drafts for run in specdec):
        yield "speculation", "untold"
    if any({"chunk times", "load"} & run.missing.keys() for run in specdec):
        yield "chunks", "untold"


def _notes(baseline: Sequence[ForeignRun], specdec: Sequence[ForeignRun]) -> Iterator[str]:
    yield "not in such files, so not checked: whether the load generator was in time, the devices' health, other traffic"
    if all(run.counters.drafts is None for run in specdec):
        yield "these files do not tell whether the server speculated"
    starts = [(run.started_unix_s, arm) for arm, runs in zip(ARMS, (baseline, specdec), strict=True) for run in runs]
    order = [arm for _, arm in sorted(starts)]
    turns = sum(one != other for one, other in itertools.pairwise(order))
    if all(start for start, _ in starts) and len(baseline) > 1 and turns < len(baseline):
        yield "the runs were not made in turns: whatever else changed between the arms counts as gain"
