"""Saved measurements to hold a new one against: which of them may serve, and what is said where none may.

A saved measurement serves when all that decides its figures, beside what is under test, is equal: target, method and K, prompts
and load, sampling, device. The version of vLLM, its flags and the draft's weights are what a comparison is for; they are named.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.model_paths import is_path
from pytest_specdec.core.server_facts import differences
from pytest_specdec.core.server_flags import value_of
from pytest_specdec.core.slo_values import REGRESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.results import ResultDocument
    from pytest_specdec.core.samples import Arm, Comparison, ServerRecord
    from pytest_specdec.core.verdict import Requirement

    SavedFor = Callable[[Comparison], "Saved"]

SAVE_ONE = "Save one: pytest ... --specdec-save, where the reference is to be made."


@dataclass(frozen=True)
class Saved:
    """A saved measurement, and how it is called."""

    name: str
    comparison: Comparison


@dataclass(frozen=True)
class StoredRun:
    """A result file, and how it is called."""

    name: str
    document: ResultDocument
    proven_only: bool = False
    """Whether only measurements count whose gates did not fail: a run that was missed is no reference, unless it is asked for by name."""

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """What may be compared with: no measurement that broke off before its first verdict."""
        missed = (gate for gate in self.document.gates if gate.outcome in ("failed", "xfailed") and self.proven_only)
        failed = {key for gate in missed for key in (gate.comparison, *gate.points)}
        return {
            key: one
            for key, one in self.document.comparisons.items()
            if one.rounds >= one.load.rounds and not one.is_self_test and key not in failed
        }


def run_name(document: ResultDocument, fallback: str) -> str:
    """``release of 2026-11-30 05:41 (4f2a1c9d, main)``: what a run was saved as, when, and from which state of the code."""
    known = document.environment
    commit = known.get("commit", "")[:8] + ("+" if known.get("dirty") else "")
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(document.created_unix_s))
    inside = ", ".join(filter(None, (commit, known.get("branch", ""))))
    return f"{known.get('saved_as') or fallback} of {when}" + (f" ({inside})" if inside else "")


def nothing_to_compare_with() -> CannotMeasure:
    """For ``max_regression`` without a saved result."""
    return CannotMeasure(
        "max_regression: no saved result was given to compare with",
        remedy="Save one with --specdec-save, then run with --specdec-compare=last (or a branch, a name, a file).",
    )


def for_quantities(requirements: Sequence[Requirement], load: LoadSpec) -> tuple[Requirement, ...]:
    """The same with a plain ``max_regression`` made one for each quantity that this load can tell.

    Throughput is one of them in a closed loop only, since at a request rate it is mostly the offered load.
    """
    found: list[Requirement] = []
    for one in requirements:
        if one.objective != "max_regression" or one.part is not None:
            found.append(one)
            continue
        parts = [part for part in REGRESSIONS if part != "tpot_gain" and not (part == "throughput" and load.open_loop)]
        found += [replace(one, part=part) for part in parts]
    return tuple(found)


def pick(now: Comparison, runs: Iterable[StoredRun], *, model: str | None = None, where: str) -> Saved:
    """The first saved measurement, in the order of the runs, whose conditions are those of ``now``.

    Args:
        now: A measurement, or one that is only planned: what it does not say yet is left open.
        runs: To be looked through.
        model: The target, where no server of ``now`` says it yet.
        where: What the runs are, for errors: a file, a folder, ``branch main``.

    Raises:
        CannotMeasure: There is none; it says what differs from the nearest one of the same config and workload.
    """
    nearest: tuple[str, tuple[str, ...]] | None = None
    seen: dict[str, None] = {}
    for run in runs:
        for one in run.comparisons.values():
            seen[f"{one.config_id} on {one.workload.name}, {one.load.at}"] = None
            if one.config_id != now.config_id:
                continue
            differing = differing_conditions(now, one, model=model)
            if not differing:
                return Saved(run.name, one)
            if nearest is None or len(differing) < len(nearest[1]):
                nearest = run.name, differing
    asked = f"config {now.config_id!r} on workload {now.workload.name!r}, {now.load.at}"
    if nearest is not None:
        raise CannotMeasure(
            f"max_regression: nothing in {where} was measured under equal conditions as {asked}; saved against now: "
            f"{'; '.join(nearest[1])} ({nearest[0]})",
            remedy=f"Measure under the conditions of the saved result, or make a new one. {SAVE_ONE}",
        )
    there = f"It holds: {'; '.join(seen)}. " if seen else ""
    raise CannotMeasure(f"max_regression: {where} has no result of {asked}", remedy=f"{there}{SAVE_ONE}")


def differing_conditions(now: Comparison, saved: Comparison, *, model: str | None = None) -> tuple[str, ...]:
    """What keeps two measurements from being compared, such as ``num_speculative_tokens 3 against 5``, the saved one first.

    What one that is only planned cannot say yet (it has no servers) is left out.
    """
    ours, theirs = conditions(now, model), conditions(saved)
    planned = not now.servers
    found = []
    for name, value in theirs.items():
        if planned and ours[name] is None:
            continue
        if value != ours[name]:
            before, after = ("unknown" if one is None else one for one in (value, ours[name]))
            found.append(f"{name} {before} against {after}")
    return tuple(found)


def changed_since(now: Comparison, saved: Comparison) -> tuple[str, ...]:
    """What else is not as it was, which does not forbid a comparison: vLLM, flags, the draft; the saved one first."""
    ours, theirs = _server(now), _server(saved)
    if ours is None or theirs is None:
        return ()
    return tuple(_changes(ours, theirs))


def _changes(ours: ServerRecord, theirs: ServerRecord) -> Iterator[str]:
    if ours.version != theirs.version:
        yield f"vllm {theirs.version} against {ours.version}"
    after, before = (_speculation(one) for one in (ours, theirs))
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield f"speculative_config {key} {before.get(key)} against {after.get(key)}"
    if ours.facts is not None and theirs.facts is not None:
        yield from differences(theirs.facts, ours.facts)


def _speculation(server: ServerRecord) -> Mapping[str, Any]:
    try:
        data = json.loads(value_of(server.command, "speculative-config") or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _server(comparison: Comparison, arm: Arm = "specdec") -> ServerRecord | None:
    return next((server for server in reversed(comparison.servers) if server.arm == arm), None)


def conditions(one: Comparison, model: str | None = None) -> dict[str, Any]:
    """What must be equal, by name; None for what is not known. ``model`` is the target, where no server says it."""
    server = _server(one)
    target = server.model if server else model
    return {
        # A checkout elsewhere has the same target in another folder.
        "target model": PurePath(target).name if target and is_path(target) else target,
        "method": one.method or (server.attested_method if server else None),
        "num_speculative_tokens": one.num_speculative_tokens or (server.attested_tokens if server else None),
        "K by batch size": one.extra.get("schedule", "none"),
        "verification": one.extra.get("verification", "standard"),
        "other traffic on the servers": "allowed" if one.foreign_traffic else "none",
        "device": one.device,
        "workload (sha256)": one.workload.sha256[:12],
        "fresh prompts every round": one.plan_is_fresh,
        **one.load.asked,
    }
