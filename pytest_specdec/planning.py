"""What a run would start and measure, how long that takes and what it could prove; starts nothing.

Time and noise are taken from the last results of the same config and load. Where there are none, the plan says so: a guess would
look like a promise.
"""

from __future__ import annotations

import math
import shlex
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.course import start_s
from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.core.samples import ARMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.placing import Place
    from pytest_specdec.serving.machine import Machine


@dataclass(frozen=True)
class Wanted:
    """One test's measurement."""

    nodeid: str
    config: SpecConfig
    load: LoadSpec
    folder: Path
    """The test file's, where a workload's relative path is looked for."""


def plan_lines(
    wanted: Sequence[Wanted],
    earlier: Mapping[str, Comparison],
    machine: Machine | None = None,
    *,
    measured: bool = False,
) -> list[str]:
    """The plan as text.

    Args:
        wanted: The selected gates.
        earlier: Comparisons of the last results, by any key.
        machine: What the servers would run on; default: this one.
        measured: vLLM is to find out how large KV caches can be, see :meth:`pytest_specdec.placing.Place.flags`.
    """
    from pytest_specdec.serving.machine import Machine

    if not wanted:
        return ["no selected test measures anything: no server would be started"]
    return [
        "would start:",
        *_server_lines(wanted, machine or Machine(), measured=measured),
        "",
        "would measure:",
        *_measurement_lines(wanted, earlier),
    ]


def _server_lines(wanted: Sequence[Wanted], machine: Machine, *, measured: bool) -> list[str]:
    from pytest_specdec.placing import place
    from pytest_specdec.serving.command import baseline_key, masked_argv, plan_launch

    lines = []
    seen = set()
    for config_id in dict.fromkeys(want.config.id for want in wanted):
        spec = next(want.config for want in wanted if want.config.id == config_id)
        where: Place | None = None
        try:
            where = place(spec, machine)
        except SpecDecError as error:
            sentence = f"cannot be placed: {error.what}"
        else:
            spec, sentence = where.config, where.placed.sentence
        for arm in ARMS:
            key = baseline_key(spec) if arm == "baseline" else spec.id
            if (arm, key) in seen:
                continue
            seen.add((arm, key))
            try:
                flags = where.flags(arm, measured=measured) if where else []
                planned = plan_launch(spec, arm, port=0, served_name="NAME", extra_flags=flags)
                command = shlex.join(masked_argv(planned.argv))
            except SpecDecError as error:
                command = f"cannot be started: {error.what}"
            lines.append(f"  {arm:<9} {spec.id:<12} {command}")
        lines.append(f"  {'':<9} {spec.id:<12} {sentence}")
    return lines


def _measurement_lines(wanted: Sequence[Wanted], earlier: Mapping[str, Comparison]) -> list[str]:
    lines = []
    for config_id, load in dict.fromkeys((want.config.id, want.load) for want in wanted):
        tests = [want.nodeid for want in wanted if (want.config.id, want.load) == (config_id, load)]
        lines += [
            f"  {config_id}, workload {load.workload}: {load.describe()}, both sides, {_range(str(load.rounds), str(load.max_rounds))} rounds",
            f"    for {', '.join(tests)}",
            *(f"    {line}" for line in _expectations(load, _last(earlier, config_id, load))),
        ]
    return lines


def _last(earlier: Mapping[str, Comparison], config_id: str, load: LoadSpec) -> Comparison | None:
    def conditions(spec: LoadSpec) -> tuple[object, ...]:
        return (
            spec.workload,
            spec.request_rate,
            spec.concurrency,
            spec.num_requests,
            spec.max_tokens,
            spec.ignore_eos,
            spec.temperature,
        )

    alike = [
        c
        for c in earlier.values()
        if c.config_id == config_id and conditions(c.load) == conditions(load) and c.rounds > 1
    ]
    return alike[-1] if alike else None


def _expectations(load: LoadSpec, last: Comparison | None) -> list[str]:
    from pytest_specdec.core.judge import estimate

    if last is None:
        return ["time and provable effect unknown: nothing like it is in the last results"]
    per_round_s = 2 * statistics.median(run.duration_s for run in last.runs)
    times = [_minutes(rounds * per_round_s) for rounds in (load.rounds, load.max_rounds)]
    start = f"{_minutes(start_s(last.servers))} for the servers' start and {_minutes(last.warmup_s)} of warm-up"
    lines = [f"takes about {_range(*times)} of measuring, {start}, as in the last results"]
    try:
        gain = estimate(last, "tpot_gain")
    except SpecDecError:
        return lines
    if gain.low is not None and gain.high is not None:
        half = (gain.high - gain.low) / 2
        at = [
            f"{100 * half * math.sqrt(last.rounds / rounds):.1f} pp after {rounds} rounds"
            for rounds in sorted({load.rounds, load.max_rounds})
        ]
        lines.append(
            f"could tell a TPOT gain from a threshold at a distance of about {' and '.join(at)}, at the last results' noise"
        )
    return lines


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"  # noqa: PLR2004 - where seconds stop being readable
