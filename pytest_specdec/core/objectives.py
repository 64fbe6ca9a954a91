"""The one registry of objectives: everything that ``spec_slo`` can declare.

A new objective is one entry here. Marker validation, judging, tables and documentation follow from it. The module is
imported while tests are collected; what estimates (numpy, scipy) is loaded when there is something to judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core import slo_values
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.objective import Objective
from pytest_specdec.core.output_rules import check_greedy
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_specdec.core.load_spec import LoadSpec


def _equal_lengths(load: LoadSpec) -> None:
    if not load.ignore_eos:
        raise CannotMeasure(
            "e2el_gain compares whole answers, and with natural ends the arms may write different ones",
            remedy="Set spec_load(ignore_eos=True), or judge tpot_gain, which needs no equal lengths.",
        )


def _steady_window(load: LoadSpec) -> None:
    if load.concurrency is not None and load.num_requests < 2 * load.concurrency:
        raise CannotMeasure(
            f"throughput needs a steady window: {load.num_requests} requests at concurrency {load.concurrency} "
            "are ramp-up and drain only",
            remedy=f"Set num_requests to at least {2 * load.concurrency}, better {4 * load.concurrency}.",
        )


def _several_loads(load: LoadSpec) -> None:
    raise CannotMeasure(
        f"a crossover needs the gain at several loads, and this test has one: {load.at}",
        remedy="Sweep them: spec_load(concurrency=[1, 8, 32]) or spec_load(request_rate=[1, 5, 20]).",
    )


_STATISTICS = {"mean": "mean", "p50": "median"} | {f"p{one}": f"{one}th percentile" for one in (90, 95, 99)}
_LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first chunk",
    "itl": "inter-token latency, each chunk gap shared by the chunk's tokens",
    "e2el": "end-to-end latency",
    "chunk_gap": "gap between token chunks (smoothness; what vLLM's benchmark calls ITL)",
}

_ENTRIES = (
    Objective(
        "tpot_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="1 - TPOT of the speculating server / TPOT of the baseline, paired by request",
        values=slo_values.time_gain,
        estimator="gains:time_gain",
        needs="answers of two tokens or more",
    ),
    Objective(
        "ttft_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="1 - TTFT of the speculating server / TTFT of the baseline, paired by request",
        values=slo_values.time_gain,
        estimator="gains:time_gain",
    ),
    Objective(
        "e2el_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="1 - end-to-end latency of the speculating server / that of the baseline, paired by request",
        values=slo_values.time_gain,
        estimator="gains:time_gain",
        needs="ignore_eos=True",
        possible=_equal_lengths,
    ),
    Objective(
        "throughput_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="output throughput of the speculating server / that of the baseline - 1, over the steady window",
        values=slo_values.rate_gain,
        estimator="throughput:throughput_gain",
        needs="a closed loop, or a request rate that saturates the server",
        possible=_steady_window,
    ),
    Objective(
        "goodput_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="share of requests that meet every limit with speculation / that of the baseline - 1; 'gain' and limits as in min_goodput",
        values=slo_values.goodput_gain,
        estimator="goodput:goodput_gain",
    ),
    Objective(
        "min_acceptance_length",
        unit="tokens",
        direction="higher",
        kind="speculation",
        summary="mean tokens per drafting step, the target's own token included: 1 + accepted / drafts",
        values=slo_values.length,
        estimator="acceptance_stats:acceptance_length",
        needs="drafts",
    ),
    Objective(
        "min_acceptance_rate",
        unit="fraction",
        direction="higher",
        kind="speculation",
        summary="accepted tokens / drafted tokens",
        values=slo_values.share,
        estimator="acceptance_stats:acceptance_rate",
        needs="drafts",
    ),
    Objective(
        "min_tokens_per_step",
        unit="tokens",
        direction="higher",
        kind="speculation",
        summary="tokens after each request's first / decode steps, steps without a draft included",
        values=slo_values.length,
        estimator="acceptance_stats:per_step",
    ),
    Objective(
        "min_draft_coverage",
        unit="fraction",
        direction="higher",
        kind="speculation",
        summary="share of decode steps that verify a draft",
        values=slo_values.share,
        estimator="acceptance_stats:coverage",
    ),
    Objective(
        "min_acceptance_at",
        unit="fraction",
        direction="higher",
        kind="speculation",
        summary="share of drafts accepted up to and including a position (joint), counted from 0",
        values=slo_values.shares_by_position,
        estimator="acceptance_stats:acceptance_at",
        needs="drafts",
    ),
    Objective(
        "min_class_acceptance_length",
        unit="tokens",
        direction="higher",
        kind="speculation",
        summary="acceptance length of each class of prompts, judged one by one; a number is the floor of every class",
        values=slo_values.lengths_by_class,
        estimator="class_floors:acceptance_length",
        needs="prompts with a category, or several workloads; drafts",
    ),
    Objective(
        "min_class_tokens_per_step",
        unit="tokens",
        direction="higher",
        kind="speculation",
        summary="tokens per step of each class of prompts, likewise",
        values=slo_values.lengths_by_class,
        estimator="class_floors:tokens_per_step",
        needs="prompts with a category, or several workloads",
    ),
    Objective(
        "class_tpot_gain",
        unit="fraction",
        direction="higher",
        kind="gain",
        summary="TPOT gain over the requests of each class of prompts, likewise",
        values=slo_values.gains_by_class,
        estimator="class_floors:tpot_gain",
        needs="prompts with a category, or several workloads",
    ),
    *(
        Objective(
            f"{quantity}_{statistic}_ms",
            unit="ms",
            direction="lower",
            kind="limit",
            summary=f"{words} of the speculating server's {meaning}",
            values=slo_values.positive,
            estimator="limits:latency",
            needs="token ids in the stream" if quantity == "itl" else "",
        )
        for quantity, meaning in _LATENCIES.items()
        for statistic, words in _STATISTICS.items()
    ),
    Objective(
        "min_throughput_tok_s",
        unit="tok/s",
        direction="higher",
        kind="limit",
        summary="output tokens per second of the speculating server over the steady window",
        values=slo_values.positive,
        estimator="throughput:throughput",
        needs="a closed loop, or a request rate that saturates the server",
        possible=_steady_window,
    ),
    Objective(
        "min_goodput",
        unit="fraction",
        direction="higher",
        kind="limit",
        summary="share of attempted requests that succeed and meet every limit (ttft_ms, tpot_ms, e2el_ms)",
        values=slo_values.goodput,
        estimator="goodput:goodput",
    ),
    Objective(
        "max_failure_share",
        unit="fraction",
        direction="lower",
        kind="limit",
        summary="share of attempted requests that the speculating server fails",
        values=slo_values.share,
        estimator="goodput:failure_share",
        needs="max_failures above 0, or live traffic: otherwise any failure is an error",
    ),
    Objective(
        "max_kv_capacity_loss",
        unit="fraction",
        direction="lower",
        kind="side effect",
        summary="share of the baseline's KV cache (tokens) that the speculating server does not have",
        values=slo_values.share,
        estimator="side_effects:kv_capacity_loss",
        needs="vLLM's log at level INFO",
    ),
    Objective(
        "max_gpu_memory_gib",
        unit="GiB",
        direction="lower",
        kind="side effect",
        summary="GPU memory that the speculating server's processes hold, on all its devices together",
        values=slo_values.positive,
        estimator="side_effects:gpu_memory",
        needs="a GPU whose driver tells processes' memory",
    ),
    Objective(
        "max_startup_s",
        unit="s",
        direction="lower",
        kind="side effect",
        summary="seconds from the launch of the speculating server until it is ready",
        values=slo_values.positive,
        estimator="side_effects:startup",
    ),
    Objective(
        "lossless",
        unit="yes/no",
        direction="higher",
        kind="outputs",
        summary="whether greedy answers are the target's own, but for what the baseline does to itself when batches differ; at a "
        "temperature above 0, whether sampled ones come from its distribution",
        values=slo_values.agreement,
        estimator="lossless:lossless",
        needs="token ids in the stream",
    ),
    Objective(
        "min_output_match",
        unit="fraction",
        direction="higher",
        kind="outputs",
        summary="share of greedy answers that both servers give alike, token by token",
        values=slo_values.share_below_one,
        estimator="lossless:min_output_match",
        needs="temperature 0, and token ids in the stream",
        possible=lambda load: check_greedy(load, "min_output_match"),
    ),
    Objective(
        "max_loop_share",
        unit="fraction",
        direction="lower",
        kind="outputs",
        summary="share of the speculating server's answers that end in a loop: four in five of the last 4-grams had occurred before",
        values=slo_values.share,
        estimator="degenerate:max_loop_share",
        needs="token ids in the stream, answers of 48 tokens or more",
    ),
    Objective(
        "min_crossover_concurrency",
        unit="count",
        direction="higher",
        kind="sweep",
        summary="concurrency at which the TPOT gain is gone; a mapping names gains, such as {'throughput_gain': 8}",
        values=slo_values.crossover,
        estimator="crossover_verdicts:of_one_load",
        needs="a list of concurrencies",
        possible=_several_loads,
    ),
    Objective(
        "min_crossover_rate",
        unit="req/s",
        direction="higher",
        kind="sweep",
        summary="request rate at which the TPOT gain is gone",
        values=slo_values.positive,
        estimator="crossover_verdicts:of_one_load",
        needs="a list of request rates",
        possible=_several_loads,
    ),
    Objective(
        "max_regression",
        unit="fraction",
        direction="lower",
        kind="history",
        summary="how much worse the speculating server is than in a saved result: TPOT, throughput (closed loop) and acceptance length; "
        "a mapping names single ones, tpot_gain too",
        values=slo_values.regression,
        estimator="regression:regression",
        needs="a saved result under equal conditions: --specdec-save, then --specdec-compare",
    ),
)

_OBJECTIVES = {objective.name: objective for objective in _ENTRIES}
REGISTRY: Mapping[str, Objective] = _OBJECTIVES
"""Every objective by name, in the order of the documentation; those that others add come last."""


def add(objective: Objective) -> None:
    """One that is not the plugin's own, see :mod:`pytest_specdec.core.own_objectives`."""
    _OBJECTIVES[objective.name] = objective


def remove(names: Iterable[str]) -> None:
    """Those that were added."""
    for name in names:
        del _OBJECTIVES[name]


def unknown(name: str, *, others: Sequence[str] = ()) -> str:
    """What to say of a name that no objective has.

    Args:
        name: As it was given.
        others: Names beside those of objectives that can stand there.
    """
    if near := did_you_mean(name, [*REGISTRY, *others]):
        return f"unknown objective {name!r}, did you mean {near!r}?"
    known = [one for one in REGISTRY if not one.endswith("_ms")]
    return f"unknown objective {name!r}; known: {', '.join(known)}, {{ttft,tpot,itl,e2el,chunk_gap}}_{{mean,p50,p90,p95,p99}}_ms"
