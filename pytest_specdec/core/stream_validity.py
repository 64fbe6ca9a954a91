"""Did the client see what the server did, in time? Checks of the stream, of the load generator and of the device."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import DisturbedMeasurement, InvalidMeasurement
from pytest_specdec.core.foreign_traffic import REMEDY as FOREIGN_REMEDY
from pytest_specdec.core.metrics import chunk_gaps_s, decode_span_s

if TYPE_CHECKING:
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import ArmRun, ClientHealth, Comparison, RequestSample

BUFFERED_SHARE = 0.05
"""A stream whose tokens all arrive within this share of its latency may have been held back."""
LONG_ANSWER = 16
"""Tokens from which on an answer takes visible time to write."""
TPOT_TOLERANCE = 0.10
TPOT_SLACK_S = 0.0005
"""Client and server may differ by 10 % and half a millisecond: the server stops its clock before the last token travels."""
LAG_S = 0.005
"""An event loop may always be that late."""
_BUSY_SHARE = 0.8
"""Of a core: below it the load generator had time to spare."""
SEND_RATE = 0.95
NORMAL_THROTTLING = ("software power cap", "sync boost", "display clock setting")
"""A device at its power limit is what full load looks like; the others mean that something is wrong with it."""


def check_stream(run: ArmRun) -> None:
    """The stream was not held back, and agrees with the server's own clock.

    Raises:
        InvalidMeasurement: It was held back.
        DisturbedMeasurement: It does not agree.
    """
    _check_unbuffered(run)
    _check_server_tpot(run)


def _check_unbuffered(run: ArmRun) -> None:
    table = run.table
    long = table.ok & (table.tokens >= LONG_ANSWER)
    answers = int(long.sum())
    written_at_once = int((long & (table.decode_span_s < BUFFERED_SHARE * table.e2el_s)).sum())
    if 2 * written_at_once <= answers:
        return
    counted = run.counted_by_server
    server_ttft_s = _server_mean(counted.ttft_sum_s, counted.ttft_count)
    client_ttft_s = float(table.ttft_s[table.ok].mean())
    if server_ttft_s is not None and client_ttft_s <= 2 * server_ttft_s:
        return  # short answers after a long prefill, or a long queue: the server says so too
    raise InvalidMeasurement(
        f"{run.arm}: the stream was buffered: in {written_at_once} of {answers} answers all tokens arrive within the last "
        f"{BUFFERED_SHARE:.0%} of the latency",
        remedy="Connect to vLLM itself, without a proxy that buffers; check --stream-interval.",
    )


def _check_server_tpot(run: ArmRun) -> None:
    """Means of the same thing: vLLM divides by all tokens but one, and counts an answer of one token as 0."""
    server_s = _server_mean(run.counters.tpot_sum_s, run.counters.tpot_count)
    table = run.table
    if server_s is None or run.counters.tpot_count != table.ok.sum():
        return
    client_s = float((table.decode_span_s / np.maximum(table.tokens - 1, 1))[table.ok].mean())
    if abs(client_s - server_s) > TPOT_TOLERANCE * server_s + TPOT_SLACK_S:
        raise DisturbedMeasurement(
            f"round {run.round + 1}, {run.arm}: this client saw a mean TPOT of {1000 * client_s:.2f} ms, the server itself "
            f"{1000 * server_s:.2f} ms",
            remedy=_what_delays(run.client),
        )


def _what_delays(client: ClientHealth) -> str:
    if client.p99_loop_lag_s > LAG_S or client.cpu_share > _BUSY_SHARE:
        return "Something between them delays or bundles the stream, or the load generator is the bottleneck."
    return (
        f"The load generator was in time ({1000 * client.p99_loop_lag_s:.1f} ms late at the 99th percentile, "
        f"{client.cpu_share:.0%} of a core), so the stream is late before it: vLLM's API server cannot keep up "
        "(more processes: api_server_count in `serve`), or a proxy bundles it."
    )


def _server_mean(total_s: float | None, count: int | None) -> float | None:
    return total_s / count if total_s is not None and count else None


def check_sources(run: ArmRun, k: int | None) -> None:
    """Steps, tokens and acceptance as the server counts them in three places explain each other.

    What the steps delivered beyond one token each was accepted; accepted but not delivered is only what the end of an
    answer cut from its last step, K tokens a request at most. 1 % is left for steps that a version counts otherwise.
    Nothing is held against each other where foreign traffic leaves one source only.

    Raises:
        InvalidMeasurement: They do not.
    """
    counters = run.counters
    accepted, steps, k = counters.accepted_tokens, counters.decode_steps, k or len(counters.accepted_per_position or ())
    generated, finished = counters.generation_tokens, counters.finished_requests
    if (
        run.server_counters is not None
        or accepted is None
        or steps is None
        or generated is None
        or finished is None
        or not run.table.ok.all()
    ):
        return
    delivered = generated - finished - steps
    slack = 0.01 * generated
    if not delivered - slack <= accepted <= delivered + k * finished + slack:
        raise InvalidMeasurement(
            f"round {run.round + 1}, {run.arm}: the server counted {accepted} accepted tokens, but {generated} tokens of "
            f"{finished} requests in {steps} decode steps speak of {delivered} to {delivered + k * finished}",
            remedy="This version may count steps in another way, or something else uses the server: see docs/statistics.md.",
        )
    told = [one for one in run.table.column("spec.accepted_tokens") if one is not None]
    in_requests = sum(told)
    if len(told) == len(run.samples) and abs(in_requests - accepted) > slack:
        raise InvalidMeasurement(
            f"round {run.round + 1}, {run.arm}: the server counted {accepted} accepted tokens in all, and {in_requests} in its "
            "figures per request",
            remedy=FOREIGN_REMEDY,
        )


def lag_allowed_s(run: ArmRun) -> float:
    """How late the client's event loop may be at its 99th percentile.

    5 ms, a fifth of the median chunk gap, or 5 % of the median time from first to last chunk, whichever is most: a TPOT is
    then off by a few percent in the worst request, and by nothing on average.
    """
    gaps_s = [gap for sample in run.successes for gap in chunk_gaps_s(sample)]
    spans_s = [decode_span_s(sample) for sample in run.successes]
    return max(
        LAG_S,
        0.2 * statistics.median(gaps_s) if gaps_s else 0.0,
        0.05 * statistics.median(spans_s) if spans_s else 0.0,
    )


def check_client(run: ArmRun, load: LoadSpec) -> None:
    """The load generator kept up.

    Raises:
        DisturbedMeasurement: It was the bottleneck.
    """
    client = run.client
    remedy = _what_frees(client)
    # What is always tolerable spares a busy client's report the search through all gaps.
    allowed_s = lag_allowed_s(run) if client.p99_loop_lag_s > LAG_S else LAG_S
    if client.p99_loop_lag_s > allowed_s:
        raise DisturbedMeasurement(
            f"round {run.round + 1}, {run.arm}: the load generator is the bottleneck: its event loop was "
            f"{1000 * client.p99_loop_lag_s:.1f} ms late at the 99th percentile, {1000 * allowed_s:.1f} ms are tolerable "
            f"({_what_it_had(client)})",
            remedy=remedy,
        )
    if (
        client.offered_rate
        and client.achieved_rate is not None
        and client.achieved_rate < SEND_RATE * client.offered_rate
    ):
        raise DisturbedMeasurement(
            f"round {run.round + 1}, {run.arm}: the load generator is the bottleneck: it sent {client.achieved_rate:.2f} "
            f"requests per second instead of {client.offered_rate:.2f}",
            remedy=remedy,
        )
    if load.request_rate and client.p99_send_delay_s is not None:
        tolerable_s = max(0.05, 0.1 / load.request_rate)
        if client.p99_send_delay_s > tolerable_s:
            raise DisturbedMeasurement(
                f"round {run.round + 1}, {run.arm}: the load generator is the bottleneck: requests left "
                f"{1000 * client.p99_send_delay_s:.0f} ms late at the 99th percentile, {1000 * tolerable_s:.0f} ms are tolerable",
                remedy=remedy,
            )


def _what_it_had(client: ClientHealth) -> str:
    if client.cpu_share > _BUSY_SHARE:
        return f"it used {client.cpu_share:.0%} of a core, all that it could"
    return f"it used {client.cpu_share:.0%} of a core, and waited for one the rest of the time"


def _what_frees(client: ClientHealth) -> str:
    if client.cpu_share > _BUSY_SHARE:
        return "Share the load out (`clients: auto` under `measure`), lower it, or give the client a faster core."
    return (
        "Run nothing else on the machine meanwhile, and measure again. If nothing else runs, the servers take every core: "
        "leave the client one (taskset in `command`; VLLM_CPU_NUM_OF_RESERVED_CPU=1 in `env` for vLLM on a CPU), or lower the load."
    )


def check_devices(run: ArmRun) -> None:
    """The devices ran at full clock, for us alone.

    Raises:
        DisturbedMeasurement: Slowed down, or shared.
    """
    for device in run.devices:
        name = f"device {device.index}" + (f" ({device.name})" if device.name else "")
        slowed = [reason for reason in device.throttle_reasons if reason not in NORMAL_THROTTLING]
        if slowed:
            clock = f" at {device.sm_clock_mhz} MHz" if device.sm_clock_mhz else ""
            heat = f", {device.temperature_c} degrees" if device.temperature_c is not None else ""
            raise DisturbedMeasurement(
                f"round {run.round + 1}, {run.arm}: {name} was slowed down{clock}{heat}: {', '.join(slowed)}",
                remedy="Let it cool down and check its power supply, then measure again.",
            )
        if device.foreign_processes:
            raise DisturbedMeasurement(
                f"round {run.round + 1}, {run.arm}: other processes use {name}: {', '.join(device.foreign_processes)}",
                remedy="Stop them, or choose another device with CUDA_VISIBLE_DEVICES.",
            )


def stream_notes(comparison: Comparison) -> tuple[str, ...]:
    """What a report should carry about the streams, although it invalidates nothing."""
    notes = []
    k = comparison.num_speculative_tokens
    spec = [sample for run in comparison.arm("specdec") for sample in run.successes]
    merged = sum(_merged_chunks(sample, k) for sample in spec) if k is not None else 0
    if merged:
        notes.append(
            f"{merged} chunks carried more than {(k or 0) + 1} tokens, so vLLM merged decode steps in the stream; "
            "steps are counted by the server"
        )
    capped = {
        device.index
        for run in comparison.runs
        for device in run.devices
        if "software power cap" in device.throttle_reasons
    }
    if capped:
        notes.append(f"at its power limit: device {', '.join(map(str, sorted(capped)))}")
    return tuple(notes)


def _merged_chunks(sample: RequestSample, k: int) -> int:
    return sum(tokens > k + 1 for tokens in sample.chunk_tokens[1:]) if sample.chunk_tokens else 0
