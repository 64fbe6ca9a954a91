"""What to do about speculation: enable, weigh, stop or make it dynamic, from all loads that were measured of a config.

What is not proven decides nothing: a threshold counts as met, or as missed, only when the whole interval lies on one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_specdec.core.advice import shown, with_interval
from pytest_specdec.core.degenerate import ORDINARY, defects_of
from pytest_specdec.core.judge import Figures, outcome_of
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.outputs import divergences
from pytest_specdec.core.procedure import Thresholds
from pytest_specdec.core.samples import ARMS
from pytest_specdec.core.steady import keeps_up
from pytest_specdec.core.validity import SELDOM_DRAFTING
from pytest_specdec.core.vllm_versions import at_least, release_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate, Outcome, Unit

Action = Literal["enable", "weigh", "stop", "make it dynamic", "unsure"]
DYNAMIC_SINCE = "0.24.0"
"""vLLM's first release with ``num_speculative_tokens_per_batch_size``."""
_LENGTH = "min_acceptance_length"
_ALONE = 1.5
"""Requests in flight up to which a load is the lowest that there can be."""
_NOTHING = 0.0005
"""A loss of KV cache that would be shown as 0.0 %."""
_ANOTHER_LOAD = 1.5
"""How many times more requests in flight make another load, and not the same with some noise."""


@dataclass(frozen=True)
class Recommendation:
    """What to do with one config on one workload, and why."""

    config_id: str
    workload: str
    action: Action
    reason: str
    """The figures that decide, with their intervals."""
    missing: str = ""
    """What would have to be measured for more; empty when nothing is missing."""

    @property
    def text(self) -> str:
        """``stop: acceptance length 1.31 (1.28 .. 1.34) is below 1.50``."""
        return f"{self.action}: {self.reason}" + (f"; missing: {self.missing}" if self.missing else "")


@dataclass(frozen=True)
class _Figure:
    """One figure held against its threshold."""

    name: str
    estimate: Estimate
    required: float
    unit: Unit
    at: str = ""

    @property
    def outcome(self) -> Outcome:
        return self.against(self.required)

    def against(self, required: float) -> Outcome:
        return outcome_of(self.estimate, required, "higher")

    def __str__(self) -> str:
        return f"{self.name} {with_interval(self.estimate, self.unit)}{self.at}"

    @property
    def unproven(self) -> str:
        return f"{self} is not proven to reach {shown(self.required, self.unit)}"


@dataclass(frozen=True)
class _Evidence:
    """All that an advice rests on."""

    low: Figures
    high: Figures
    length: _Figure | None
    gain: _Figure | None
    throughput: _Figure | None
    problems: tuple[str, ...]

    @property
    def both_loads(self) -> bool:
        return in_flight(self.high.comparison) >= _ANOTHER_LOAD * in_flight(self.low.comparison)

    @property
    def knows_low(self) -> bool:
        return self.both_loads or in_flight(self.low.comparison) <= _ALONE

    @property
    def missing(self) -> str:
        if self.both_loads:
            return ""
        return "a high load" if self.knows_low else "a low and a high load"


def recommendations(
    comparisons: Iterable[Comparison], thresholds: Thresholds | None = None
) -> tuple[Recommendation, ...]:
    """One advice for every config and workload, in the order in which they were measured.

    Args:
        comparisons: Of a session; self-tests and what has no complete round are left out.
        thresholds: Other ones than the defaults.
    """
    groups: dict[tuple[object, ...], list[Comparison]] = {}
    for one in comparisons:
        if one.rounds and not one.is_self_test:
            groups.setdefault(_subject(one), []).append(one)
    return tuple(recommend(group, thresholds or Thresholds()) for group in groups.values())


def advice_on(one: Comparison, among: Iterable[Comparison], thresholds: Thresholds | None = None) -> Recommendation:
    """The advice that a comparison belongs to, with what else was measured of its config and workload."""
    group = [other for other in among if other.rounds and _subject(other) == _subject(one)]
    return recommend(group or [one], thresholds or Thresholds())


def _subject(one: Comparison) -> tuple[object, ...]:
    """What an advice is about: loads may differ, and nothing else."""
    load = one.load
    return (one.config_id, one.workload.name, one.workload.sha256, load.temperature, load.top_p, load.top_k)


def recommend(group: Sequence[Comparison], thresholds: Thresholds) -> Recommendation:
    """The advice for one config on one workload; never raises.

    Args:
        group: The loads that were measured, at least one.
        thresholds: Where one advice ends and the next begins.
    """
    ordered = sorted(group, key=in_flight)
    low, high = ordered[0], ordered[-1]
    harm = next(filter(None, map(harm_done, ordered)), "")

    def advice(action: Action, reason: str, missing: str = "") -> Recommendation:
        return Recommendation(low.config_id, low.workload.name, action, reason, missing)

    if kind := low.extra.get("verification"):
        return advice("unsure", f"verification is {kind}, so nothing here tells what the draft does to real answers")
    if low.method in SELDOM_DRAFTING and not any(_drafts(one) for one in ordered):
        return advice("stop", "nothing in these answers could be found again, so no step drafted")
    if harm:
        return advice("stop", harm)
    at_low = Figures(low)
    evidence = _evidence(at_low, at_low if high is low else Figures(high), thresholds)
    action, reason = _decide(evidence)
    return advice(action, reason, "" if action == "stop" else evidence.missing)


def harm_done(one: Comparison) -> str:
    """What speculation does to answers, whatever it gains; empty where nothing of the kind was seen."""
    outputs = one.outputs
    if outputs is not None:
        hard = [found for found in divergences(outputs.pairs, outputs.tie_margin_nats) if found.repeats]
        blamed = [found for found in hard if found.by != "baseline"]
        if blamed:
            prompts = "1 prompt" if len(blamed) == 1 else f"{len(blamed)} prompts"
            return f"answers of {prompts} hold tokens that the target would not have said, again and again"
    for defect in defects_of(one):
        if defect.significant and defect.specdec > defect.baseline and defect.name not in ORDINARY:
            shares = (
                f"{100 * defect.specdec:.1f} % of its answers, and {100 * defect.baseline:.1f} % of the baseline's,"
            )
            return f"{shares} {defect.name}{_at(one)}"
    return ""


def in_flight(one: Comparison) -> float:
    """Requests in flight on average: the concurrency, or what the baseline had under arrivals at a rate (Little's law)."""
    if one.load.concurrency is not None:
        return one.load.concurrency
    runs = one.arm("baseline")
    busy_s = float(sum(np.nansum(run.table.e2el_s[run.table.ok]) for run in runs))
    return busy_s / max(sum(run.duration_s for run in runs), 1e-9)


def _drafts(one: Comparison) -> bool:
    # A server that does not count its drafts may have drafted.
    return any(run.counters.drafts != 0 for run in one.arm("specdec"))


class _Reading:
    """Figures of comparisons, and why some are missing."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def figure(self, figures: Figures, objective: str, required: float) -> _Figure | None:
        """One objective's figure held against a threshold; None, and the reason kept, where there is none."""
        estimate, problem = figures.of(objective)
        if estimate is None:
            self.problems.append(problem)
            return None
        name = objective.removeprefix("min_").replace("_", " ").replace("tpot", "TPOT")
        at = "" if objective == _LENGTH else _at(figures.comparison)
        return _Figure(name, estimate, required, REGISTRY[objective].unit, at)


def _evidence(low: Figures, high: Figures, thresholds: Thresholds) -> _Evidence:
    reading = _Reading()
    length = reading.figure(low, _LENGTH, thresholds.acceptance_length)
    # However low a threshold is set, nothing is enabled that is not proven to pay.
    gain = reading.figure(low, "tpot_gain", max(thresholds.tpot_gain, 0.0))
    # Where both serve what is offered, speculation loses only if it makes the answers slower.
    served = all(keeps_up(high.comparison, arm) for arm in ARMS)
    throughput = (
        reading.figure(high, "tpot_gain", 0.0)
        if served
        else reading.figure(high, "throughput_gain", thresholds.throughput_gain)
    )
    return _Evidence(low, high, length, gain, throughput, tuple(dict.fromkeys(reading.problems)))


def _decide(evidence: _Evidence) -> tuple[Action, str]:
    length, gain = evidence.length, evidence.gain
    if length is not None and length.outcome == "FAIL":
        return "stop", f"{length} is below {shown(length.required, length.unit)}: most drafts are thrown away"
    if gain is None or length is None:
        return "unsure", "; ".join(evidence.problems)
    return _loses(evidence, gain) or _gains(evidence, gain, length)


def _loses(evidence: _Evidence, gain: _Figure) -> tuple[Action, str] | None:
    """The advice where speculation costs more than it brings, at low load or at high."""
    pays, throughput = gain.against(0.0), evidence.throughput
    if pays == "FAIL" and evidence.knows_low:
        return "stop", f"{gain}: slower than without speculation even there"
    if pays == "FAIL":
        return "unsure", f"{gain}: slower than without speculation there"
    if evidence.both_loads and pays == "ok" and throughput is not None and throughput.outcome == "FAIL":
        high = evidence.high.comparison
        return "weigh" if "schedule" in high.extra else "make it dynamic", f"{gain}, but {throughput}: {_dynamic(high)}"
    return None


def _gains(evidence: _Evidence, gain: _Figure, length: _Figure) -> tuple[Action, str]:
    throughput = evidence.throughput
    if gain.outcome == "FAIL":
        also = f", {throughput}" if throughput is not None and evidence.both_loads else ""
        wanted = shown(gain.required, gain.unit)
        return "weigh", f"{gain}{also}, {length}: less than {wanted}, so weigh it against {_cost(evidence.low)}"
    unproven = [one.unproven for one in (length, gain) if one.outcome != "ok"]
    if evidence.both_loads and (throughput is None or throughput.outcome != "ok"):
        unproven.append("; ".join(evidence.problems) if throughput is None else throughput.unproven)
    if unproven:
        return "unsure", f"{'; '.join(unproven)}; more rounds or requests would tell"
    if not evidence.both_loads:
        return "unsure", f"{gain} and {length} speak for it, but only one load was measured"
    return "enable", f"{gain}, {throughput}, {length}"


def _at(one: Comparison) -> str:
    load = one.load
    return f" at {load.request_rate:g} requests per second" if load.open_loop else f" at concurrency {load.concurrency}"


def _dynamic(one: Comparison) -> str:
    if "schedule" in one.extra:
        return "K depends on the batch size already, so lower it for such batches, to 0 at the least, or limit the load"
    version = next((server.version for server in one.servers if server.version), None)
    if release_of(version) is not None and not at_least(version, DYNAMIC_SINCE):
        return f"limit the load or lower K (from vLLM {DYNAMIC_SINCE[:-2]} on K can depend on the batch size)"
    return f"num_speculative_tokens_per_batch_size (vLLM >= {DYNAMIC_SINCE[:-2]}), or limit the load"


def _cost(figures: Figures) -> str:
    """What the config costs besides compute, as far as it was measured."""
    one = figures.comparison
    if one.method in SELDOM_DRAFTING:
        what = "its upkeep (there is no second model)"
    elif one.method == "mtp":
        what = "its upkeep (the draft is part of the target)"
    else:
        what = "the cost of a second model"
    known = []
    loss, memory, start = (
        figures.of(name)[0] for name in ("max_kv_capacity_loss", "max_gpu_memory_gib", "max_startup_s")
    )
    if loss is not None and loss.value > _NOTHING:
        known.append(f"{shown(loss.value, 'fraction')} of the KV cache")
    if memory is not None:
        known.append(f"{shown(memory.value, 'GiB')} of GPU memory in all")
    plain_s = [server.startup_s for server in one.servers if server.arm == "baseline"]
    if start is not None and plain_s:
        known.append(f"{start.value - max(plain_s):+.0f} s at start")
    return f"{what}: {', '.join(known)}" if known else what
