"""May a verdict rest on these numbers? What can be told from a run and a comparison; an invalid measurement is an error.

Every check raises with the evidence and with what to do. Checks of the stream, the client and the device are in
:mod:`pytest_specdec.core.stream_validity`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.acceptance import inconsistencies
from pytest_specdec.core.errors import InvalidMeasurement, RequestsFailed
from pytest_specdec.core.foreign_traffic import REMEDY as FOREIGN_REMEDY
from pytest_specdec.core.request_failures import remedy_for
from pytest_specdec.core.samples import ARMS
from pytest_specdec.core.stream_validity import check_client, check_devices, check_sources, check_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.run_table import RunTable
    from pytest_specdec.core.samples import ArmRun, Comparison

_SELDOM = 0.05
"""A share of failed requests up to which tolerating them can be sensible."""
SELDOM_DRAFTING = ("ngram", "ngram_gpu", "suffix")
"""Methods without a draft model: they propose only where text repeats, so no draft at all is possible."""


def check_run(run: ArmRun, comparison: Comparison) -> None:
    """Check one run on its own, as soon as it is over.

    Args:
        run: The new run; it may be part of the comparison already.
        comparison: Config and load, and the runs so far.

    Raises:
        RequestsFailed: More failures than ``max_failures`` allows.
        InvalidMeasurement: Numbers that must not be believed.
    """
    earlier = [other for other in comparison.arm(run.arm) if other.round != run.round]
    _check_failures([*earlier, run], comparison)
    _check_complete(run, comparison)
    _check_speculation(run, comparison)
    _check_counters(run, comparison)
    _check_traffic(run)
    check_sources(run, comparison.num_speculative_tokens)
    check_stream(run)
    check_client(run, comparison.load)
    check_devices(run)


def check_comparison(comparison: Comparison) -> None:
    """Check all runs, and the arms against each other.

    Raises:
        RequestsFailed: More failures than ``max_failures`` allows.
        InvalidMeasurement: Numbers that must not be believed.
    """
    if not comparison.rounds:
        raise InvalidMeasurement(
            "no round was completed in both arms, so there is nothing to compare", remedy="Measure again."
        )
    if comparison.refused:
        raise InvalidMeasurement(f"the measurement was given up: {comparison.refused}", remedy="Measure again.")
    for run in comparison.runs:
        check_run(run, comparison)
    _check_attested(comparison)
    _check_same_work(comparison)
    _check_drafted(comparison)
    _check_fresh(comparison)
    _check_versions(comparison)


def verification_of(speculative_config: Mapping[str, object]) -> str | None:
    """How drafts are verified when it is not the real thing: ``synthetic`` or ``fly`` (lossy); None for real acceptance.

    To be kept in ``Comparison.extra["verification"]``: acceptance objectives are then an error, times are judged.
    """
    method = str(speculative_config.get("rejection_sample_method", "")).lower()
    return method if method in ("synthetic", "fly") else None


def made_up(comparison: Comparison) -> bool:
    """Whether acceptance, and with it what the answers say, is made up: only times tell something about the draft."""
    return comparison.extra.get("verification") == "synthetic"


def _check_failures(runs: Sequence[ArmRun], comparison: Comparison) -> None:
    if all(run.table.ok.all() for run in runs):
        return
    failed = [sample for run in runs for sample in run.samples if sample.error is not None]
    load = comparison.load
    # The share is one of the planned rounds, so a single failure in the first of them does not end a tolerant run.
    planned = max(sum(len(run.samples) for run in runs), load.rounds * load.num_requests)
    if len(failed) > load.max_failures * planned or not all(run.successes for run in runs):
        raise RequestsFailed(
            f"{len(failed)} of {sum(len(run.samples) for run in runs)} requests of the {runs[0].arm} arm failed; the first: "
            f"request {failed[0].index}: {failed[0].error}",
            remedy=remedy_for(failed[0].error or "") or _tolerating(len(failed) / planned),
        )


def _tolerating(share: float) -> str:
    """What to do about a share of failed requests; one that is not small is nothing to get used to."""
    if share > _SELDOM:
        return "The end of that server's log says more."
    enough = math.ceil(share * 1000) / 1000
    return f"Look into that server's log; spec_load(max_failures={enough:g}) would tolerate so many."


def _check_complete(run: ArmRun, comparison: Comparison) -> None:
    where = _where(run)
    planned = comparison.load.num_requests
    table = run.table
    if len(run.samples) != planned or len(np.unique(table.index)) != planned:
        raise InvalidMeasurement(
            f"{where}: {len(run.samples)} requests were sent instead of the planned {planned}",
            remedy="The run was cut short; measure it again.",
        )
    without = table.ok & ((table.times.sizes < 1) | (table.tokens < 1))
    if without.any():
        first = int(without.argmax())
        raise InvalidMeasurement(
            f"{where}: request {table.index[first]} succeeded with {table.tokens[first]} tokens in "
            f"{table.times.sizes[first]} chunks",
            remedy="A server that answers without tokens serves something else; look into its log.",
        )
    known = table.ok & table.chunk_tokens.told
    told = int(table.chunk_tokens.of(known).sum(dtype=np.int64))
    counted = int(table.tokens[known].sum())
    if abs(told - counted) > 0.01 * counted:
        raise InvalidMeasurement(
            f"{where}: the streams carried {told} token ids, but the server's usage says {counted} tokens",
            remedy="A proxy that drops or repeats chunks? Connect to vLLM itself.",
        )


def _check_speculation(run: ArmRun, comparison: Comparison) -> None:
    counters = run.counted_by_server
    if run.arm == "baseline" or comparison.is_self_test:
        if counters.drafts is not None:
            raise InvalidMeasurement(
                f"the baseline speculates too: it counts drafts ({counters.drafts} in round {run.round + 1})",
                remedy="Look for speculation in the flags of both sides (serve:), in a --config file, or in the target's own "
                "checkpoint (a speculators model).",
            )
        return
    if comparison.extra.get("speculation") == "untold":
        return
    if counters.drafts is None:
        no_metrics = counters.generation_tokens is None
        raise InvalidMeasurement(
            "speculation cannot be confirmed: the server exposes no vllm: counters at all"
            if no_metrics
            else "speculation was not on: the server exposes no vllm:spec_decode_* counters",
            remedy="Remove --disable-log-stats from the flags."
            if no_metrics
            else "Look in specdec.log for what became of --speculative-config.",
        )
    stated = comparison.num_speculative_tokens
    positions = counters.accepted_per_position
    if stated is not None and positions is not None and len(positions) != stated:
        raise InvalidMeasurement(
            f"the server drafts up to {len(positions)} tokens, the config states num_speculative_tokens {stated}",
            remedy="Another method or K is in force than the config says, such as a silent fallback; see specdec.log.",
        )


def _check_attested(comparison: Comparison) -> None:
    """The method and K in force are those that the config states, where it states them."""
    for server in comparison.servers:
        if server.arm == "baseline" or (server.attested_method is None and server.attested_tokens is None):
            continue
        stated, k = comparison.method, comparison.num_speculative_tokens
        # The names of single MTP families are aliases that vLLM reports as mtp.
        same = (
            stated is None
            or server.attested_method in (None, stated)
            or (stated.endswith("_mtp") and server.attested_method == "mtp")
        )
        if not same or (k is not None and server.attested_tokens not in (None, k)):
            raise InvalidMeasurement(
                f"the server says it speculates with {server.attested_method}, {server.attested_tokens} tokens; the config states "
                f"{stated or 'no method'}, {'no number of' if k is None else k} tokens",
                where=server.log,
                remedy="vLLM has silently taken another method or K: state the method that fits the draft's weights, and keep words "
                "such as eagle3 out of the path of a draft that is something else.",
            )


def _check_counters(run: ArmRun, comparison: Comparison) -> None:
    wrong = inconsistencies(run.counters, comparison.num_speculative_tokens)
    if wrong:
        raise InvalidMeasurement(
            f"{_where(run)}: the server's counters contradict each other: {'; '.join(wrong)}",
            remedy="Was the server restarted, or does another process share its metrics?",
        )


def _check_traffic(run: ArmRun) -> None:
    """What the server generated is what this client received, but for what failed requests had got before they failed.

    Where foreign traffic is allowed, it is at least that: else the counters are another server's.
    """
    succeeded = int(run.table.ok.sum())
    failed = len(run.samples) - succeeded
    received = int(run.table.tokens[run.table.ok].sum())
    shared = run.server_counters is not None
    generated, finished = run.counted_by_server.generation_tokens, run.counted_by_server.finished_requests
    remedy = "A gateway that spreads requests over several servers? Name one of them." if shared else FOREIGN_REMEDY
    if generated is not None and (generated < received or (not failed and not shared and generated != received)):
        raise InvalidMeasurement(
            f"{_where(run)}: the server counted {generated} generated tokens, this client received {received}",
            remedy=remedy,
        )
    if finished is not None and not (succeeded <= finished and (shared or finished <= len(run.samples))):
        raise InvalidMeasurement(
            f"{_where(run)}: the server finished {finished} requests, this client sent {len(run.samples)}, "
            f"of which {failed} failed",
            remedy=remedy,
        )


def _check_same_work(comparison: Comparison) -> None:
    for base, spec in zip(comparison.arm("baseline"), comparison.arm("specdec"), strict=False):
        if base.round != spec.round or not _same_plan(base.table, spec.table):
            raise InvalidMeasurement(
                f"round {base.round + 1}: the arms did not get the same requests",
                remedy="Both arms must answer the same plan; measure again.",
            )
        if base.prefix_cache_reset != spec.prefix_cache_reset:
            with_reset = next(run.arm for run in (base, spec) if run.prefix_cache_reset)
            raise InvalidMeasurement(
                f"round {base.round + 1}: only the {with_reset} arm had its prefix cache reset before it",
                remedy="Switch prefix caching off on both sides: serve: {enable_prefix_caching: false}.",
            )


def _same_plan(base: RunTable, spec: RunTable) -> bool:
    orders = [np.argsort(table.index, kind="stable") for table in (base, spec)]
    columns = ((base.index, spec.index), (base.prompt, spec.prompt), (base.due_s, spec.due_s))
    return all(
        np.array_equal(ours[orders[0]], theirs[orders[1]], equal_nan=ours.dtype == np.float64)
        for ours, theirs in columns
    )


def _check_drafted(comparison: Comparison) -> None:
    """A draft that is a model drafts at every step; for ngram and suffix, no drafts is a finding, not an error.

    Nor is it one where a schedule has a K of 0 for some batch sizes, or where another tool's file does not tell.
    """
    if ", 0]" in comparison.extra.get("schedule", "") or comparison.extra.get("speculation") == "untold":
        return
    method = comparison.method
    drafts = sum(run.counted_by_server.drafts or 0 for run in comparison.arm("specdec"))
    if not drafts and method not in SELDOM_DRAFTING and not comparison.is_self_test:
        raise InvalidMeasurement(
            f"speculation was not active: not one draft in {comparison.rounds} rounds with method {method or 'left to vLLM'}",
            remedy="Look in specdec.log for what became of the draft. VLLM_ENABLE_V1_MULTIPROCESSING=0 has this effect, and so "
            "has num_speculative_tokens_per_batch_size with data parallel above 1.",
        )


def _check_fresh(comparison: Comparison) -> None:
    if not comparison.plan_is_fresh:
        return
    prompts = np.concatenate([run.table.prompt for run in comparison.arm("specdec")])
    different = len(np.unique(prompts))
    if different < len(prompts):
        raise InvalidMeasurement(
            f"{len(prompts) - different} prompts were sent to the speculating server before, which replays answers "
            "that it remembers",
            remedy="Provide more prompts, or set suffix_decoding_max_cached_requests to 0.",
        )


def _check_versions(comparison: Comparison) -> None:
    versions = {arm: {one.version for one in comparison.servers if one.arm == arm and one.version} for arm in ARMS}
    if len(set().union(*versions.values())) > 1:
        listed = "; ".join(f"{arm} {', '.join(sorted(known))}" for arm, known in versions.items())
        raise InvalidMeasurement(
            f"the servers run different versions of vLLM: {listed}",
            remedy="Start both from one environment; only speculation may differ.",
        )


def _where(run: ArmRun) -> str:
    return f"round {run.round + 1}, {run.arm}"
