"""How a comparison came about, in lines: the placement and its blocks, the warm-ups, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.course import start_s
from pytest_specdec.core.samples import ARMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.course import BlockRecord, WarmUpRecord
    from pytest_specdec.core.samples import Comparison

_WORTH_A_WORD = 0.1
_LONG_START_S = 10.0


def placement_lines(comparison: Comparison) -> list[str]:
    """``placement: swap, because ...``; below it the blocks, where servers were launched anew in between."""
    placement = comparison.placement
    if placement is None:
        return []
    blocks = placement.blocks
    return [placement.sentence, *(map(_block_line, blocks) if len({block.launches for block in blocks}) > 1 else ())]


def _block_line(block: BlockRecord) -> str:
    last = block.first_round + block.rounds
    rounds = f"round {last}" if block.rounds == 1 else f"rounds {block.first_round + 1} to {last}"
    order = f"{' then '.join(block.order)}" if block.grouped else "alternating"
    launches = ", ".join(
        f"{arm} launch {launch + 1}" + (f" on {_devices(devices)}" if devices else "")
        for arm, launch, devices in zip(("baseline", "specdec"), block.launches, block.devices, strict=True)
    )
    gain = "" if block.tpot_gain is None else f": TPOT gain {100 * block.tpot_gain:.1f} %"
    return f"  {rounds}, {order} ({launches}){gain}"


def _devices(devices: Sequence[int]) -> str:
    return f"device{'s' if len(devices) > 1 else ''} {'+'.join(map(str, devices))}"


def warm_up_lines(comparison: Comparison) -> list[str]:
    """One per launch: how long, how many batches, and how the figures settled."""
    return [_warm_up_line(record) for record in comparison.warm_ups]


def _warm_up_line(record: WarmUpRecord) -> str:
    name = record.arm if record.launch == 0 else f"{record.arm}, launch {record.launch + 1}"
    batches = len(record.ttft_s)
    tpot = _trail([None if value is None else f"{1000 * value:.1f}" for value in record.tpot_s])
    ttft = _trail([f"{1000 * value:.0f}" for value in record.ttft_s])
    figures = ", ".join(text for text in (tpot and f"TPOT {tpot} ms", f"TTFT {ttft} ms") if text)
    end = "" if record.settled else "; had not settled"
    return (
        f"warm-up of {name}: {batches} batch{'' if batches == 1 else 'es'} of {record.requests} requests in "
        f"{seconds(record.duration_s)} ({figures}){end}"
    )


def _trail(values: Sequence[str | None]) -> str:
    """``9.2 -> 6.2 -> 6.1``; empty when nothing is known."""
    return " -> ".join(value or "-" for value in values) if any(values) else ""


def round_lines(comparison: Comparison) -> list[str]:
    """``rounds: TPOT 8.10, 8.05 ms against 5.60, 5.55 ms, gain 30.9, 31.1 %``; nothing where a round has no TPOT."""
    from pytest_specdec.core.per_round import seconds_per_token

    baseline, specdec = (seconds_per_token(comparison, arm, "TPOT") for arm in ARMS)
    if not baseline or len(baseline) != len(specdec):
        return []
    ms = [", ".join(f"{1000 * value:.2f}" for value in values) for values in (baseline, specdec)]
    gains = ", ".join(f"{100 * (1 - spec / base):.1f}" for base, spec in zip(baseline, specdec, strict=True))
    return [f"rounds: TPOT {ms[0]} ms against {ms[1]} ms, gain {gains} %"]


def time_lines(comparison: Comparison) -> list[str]:
    """``time: start 170 s (baseline 84 s, specdec 86 s), warm-up 39 s, rounds 96 s, stop 2 s``; nothing in old results."""
    if comparison.time is None:
        return []
    starts = [
        f"{server.arm}{f', launch {server.launch + 1}' if server.launch else ''} {seconds(server.startup_s)}"
        for server in comparison.servers
    ]
    beside = "; side by side" if sum(server.started_beside for server in comparison.servers) > 1 else ""
    stops_s = [server.stop_s for server in comparison.servers if server.stop_s is not None]
    parts = [
        f"start {seconds(start_s(comparison.servers))} ({'; '.join(starts)}{beside})" if starts else "",
        f"warm-up {seconds(comparison.warmup_s)}",
        f"sleep and wake {seconds(comparison.time.switch_s)}" if comparison.time.switch_s else "",
        f"rounds {seconds(comparison.time.rounds_s)}",
        f"stop {seconds(sum(stops_s))}" if stops_s else "",
    ]
    return [f"time: {', '.join(part for part in parts if part)}", *_start_lines(comparison)]


def _start_lines(comparison: Comparison) -> list[str]:
    """``start of specdec: starting 41 s, compiling 62 s``: what took at least a tenth of it."""
    lines = []
    for server in comparison.servers:
        long = {
            name: took for name, took in server.startup_phases_s.items() if took >= _WORTH_A_WORD * server.startup_s
        }
        if long and server.startup_s >= _LONG_START_S:
            launch = f", launch {server.launch + 1}" if server.launch else ""
            lines.append(
                f"start of {server.arm}{launch}: {', '.join(f'{name} {seconds(took)}' for name, took in long.items())}"
            )
    return lines


def seconds(value_s: float) -> str:
    """Without decimals where they say nothing."""
    return f"{value_s:.0f} s" if value_s >= 10 else f"{value_s:.1f} s"  # noqa: PLR2004 - two digits in either case
