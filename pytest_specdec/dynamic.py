"""``--specdec-dynamic``: measure several K at several loads, derive a schedule, write it as a config, hand that over to be gated."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure, ConfigError, Finding
from pytest_specdec.core.k_choice import SCHEDULE_KEY, config_with_k
from pytest_specdec.core.schedule import KPoint, Schedule, derive_schedule, with_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.session import SpecSession

_SUFFIX = "-dynamic"
_K_KEYS = ("num_speculative_tokens", "num-speculative-tokens", "synthetic_acceptance_rates")


@dataclass(frozen=True)
class Family:
    """Configs that differ in K only, and the one that will follow a schedule."""

    members: tuple[SpecConfig, ...]
    """The smallest K first."""
    candidates: tuple[int, ...]
    """K values to measure, the smallest first: the members', or half, a quarter, ... of a single member's, too."""

    @property
    def source(self) -> SpecConfig:
        """Whose file is copied: the one with the largest K."""
        return self.members[-1]

    @property
    def id(self) -> str:
        """Of the config to come."""
        return self.source.id + _SUFFIX

    @property
    def path(self) -> Path:
        """Of the file to come: beside the source, because paths in it count from there."""
        return self.source.path.with_name(f"{self.source.path.stem}{_SUFFIX}{self.source.path.suffix}")

    @property
    def placeholder(self) -> SpecConfig:
        """Stands for the config until there is a schedule."""
        return self.source.model_copy(update={"id": self.id, "path": self.path})

    def member(self, k: int) -> SpecConfig:
        """The config with this K: one that was given, or the source with another K."""
        given = [member for member in self.members if member.num_speculative_tokens == k]
        return given[0] if given else config_with_k(self.source, k)


@dataclass(frozen=True)
class Derived:
    """What came of one family."""

    family: Family
    points: tuple[KPoint, ...]
    schedule: Schedule
    obstacle: str = ""
    """Why no config is to be written; empty where one is."""
    fault: str = ""
    """Of the version of vLLM with such a schedule; empty where there is none."""
    fixed: tuple[Comparison, ...] = ()
    """What was measured of every K, at every load."""

    @property
    def added(self) -> str:
        """What else is set in the config, and why; empty where nothing is."""
        return f"{self.fault}, so its graphs are in pieces (serve_specdec)" if self.fault else ""


def families(configs: Iterable[SpecConfig], *, replace: bool) -> list[Family]:
    """The configs by what they have in common.

    Args:
        configs: Those of the run.
        replace: A file of the name that would be written may be there.

    Raises:
        ConfigError: A config states no K, or its file is there or cannot be written.
    """
    found: dict[str, list[SpecConfig]] = {}
    errors: list[Finding] = []
    for config in configs:
        if SCHEDULE_KEY in config.speculative_config:
            continue
        if config.num_speculative_tokens is None:
            what = "--specdec-dynamic chooses K by load, and this config states none"
            errors.append(Finding("error", config.where("speculative_config"), what, "Add num_speculative_tokens."))
            continue
        found.setdefault(_besides_k(config), []).append(config)
    grouped = [_family(members) for members in found.values()]
    for family in grouped:
        if family.path.exists() and not replace:
            what = f"{family.path.name} is there already, and --specdec-dynamic would write it"
            remedy = "Gate it with --specdec-config, or let it be written anew with --specdec-replace."
            errors.append(Finding("error", str(family.path), what, remedy))
        elif not os.access(family.path.parent, os.W_OK):
            what = f"the folder of {family.source.path.name} cannot be written to, and --specdec-dynamic writes {family.path.name} there"
            remedy = "Make it writable, or copy the config, and the files that it names by relative paths, to a folder that is."
            errors.append(Finding("error", str(family.path.parent), what, remedy))
    if not grouped and not errors:
        errors.append(
            Finding(
                "error",
                "--specdec-dynamic",
                f"every config has a {SCHEDULE_KEY} already",
                "Give one that has a fixed K.",
            )
        )
    if errors:
        raise ConfigError(errors)
    return grouped


def _besides_k(config: SpecConfig) -> str:
    rest = {key: value for key, value in config.speculative_config.items() if key not in _K_KEYS}
    alike = config.model_copy(update={"id": "", "path": config.path.parent, "speculative_config": rest})
    return alike.model_dump_json()


def _family(members: Sequence[SpecConfig]) -> Family:
    members = sorted(members, key=lambda member: member.num_speculative_tokens or 0)
    ks = {member.num_speculative_tokens or 0 for member in members}
    if len(ks) == 1:
        k = next(iter(ks))
        while k > 1:
            k //= 2
            ks.add(k)
    return Family(tuple(members), tuple(sorted(ks)))


def derive(session: SpecSession, family: Family, loads: Sequence[LoadSpec], *, test_dir: Path) -> Derived:
    """Measure every K at every load as far as a first look goes, and derive the schedule that follows.

    Args:
        session: Owns servers and measurements; what tests have measured already is not measured again.
        family: The configs.
        loads: Of a closed loop, ascending.
        test_dir: Where a workload's relative path is looked for.

    Raises:
        CannotMeasure: A K cannot be measured at a load.
    """
    from pytest_specdec.serving.preflight import schedule_fault

    points: list[KPoint] = []
    fixed: list[Comparison] = []
    session.start_soon(map(family.member, family.candidates))
    for k in family.candidates:
        measured = _measured(session, family.member(k), loads, test_dir)
        points += [KPoint(one.load.concurrency or 0, k, gain) for one, gain in measured]
        fixed += [one for one, _ in measured]
    schedule = derive_schedule(points)
    obstacle = _obstacle(family.source, points, schedule)
    fault = "" if obstacle else schedule_fault(family.source, schedule)
    return Derived(family, tuple(points), schedule, obstacle, fault, tuple(fixed))


def written(session: SpecSession, derived: Derived) -> SpecConfig:
    """Write the config of a schedule, and read it as if it had been given.

    Raises:
        ConfigError: It cannot be written, or is no config because its source was changed meanwhile.
    """
    from pytest_specdec.core.schedule_graphs import in_pieces
    from pytest_specdec.reporting.config_file import write_config
    from pytest_specdec.serving.preflight import checked_configs

    family = derived.family
    write_config(
        family.source.path,
        family.path,
        lambda speculative: with_schedule(speculative, derived.schedule),
        replace=session.options.replace,
        serve_specdec=in_pieces if derived.fault else None,
    )
    (config,), _ = checked_configs([family.path], default_model=session.options.model)
    return config.model_copy(update={"id": family.id})


def _measured(
    session: SpecSession, config: SpecConfig, loads: Sequence[LoadSpec], test_dir: Path
) -> list[tuple[Comparison, float]]:
    """One K at every load, and its TPOT gains."""
    from pytest_specdec.core.judge import estimate

    try:
        judged = session.judge(config, loads, (), test_dir=test_dir)
    finally:
        session.release(config)
    measured = []
    for comparison in judged.points.values():
        try:
            gain = estimate(comparison, "tpot_gain")
        except CannotMeasure as error:
            raise type(error)(f"{config.id} at {comparison.load.at}: {error.what}", remedy=error.remedy) from None
        measured.append((comparison, gain.value))
    return measured


def _obstacle(source: SpecConfig, points: Sequence[KPoint], schedule: Schedule) -> str:
    """Why a schedule is not written: there is nothing to schedule, or this vLLM does not follow one."""
    from pytest_specdec.core.server_flags import value_of, words_of
    from pytest_specdec.core.spec_fields import FIELDS
    from pytest_specdec.core.vllm_versions import at_least, release_of
    from pytest_specdec.serving.preflight import version_behind

    if len(schedule) == 1:
        k = schedule[0][2]
        if k == 0:
            return "no K gains anything at any of these loads: do not speculate here"
        kept = "which is what the config has" if k == source.num_speculative_tokens else "set num_speculative_tokens"
        return f"K = {k} is best at every load, {kept}: nothing to schedule"
    version = version_behind(source)
    since = FIELDS[SCHEDULE_KEY].since or ""
    if release_of(version) is not None and not at_least(version, since):
        return f"vLLM {version} knows no {SCHEDULE_KEY}, which came with {since}: {_instead(points)}"
    parallel = value_of((*(source.command or ()), *words_of(source.serve)), "data-parallel-size")
    if parallel is not None and parallel.isdigit() and int(parallel) > 1:
        return f"vLLM ignores {SCHEDULE_KEY} with data parallelism ({parallel}): {_instead(points)}"
    return ""


def _instead(points: Sequence[KPoint]) -> str:
    """Limit the load, or lower K, with the figures for both."""
    most, busiest = max(point.k for point in points), max(point.concurrency for point in points)
    pays = [point.concurrency for point in points if point.k == most and point.gain > 0]
    limit = (
        f"limit the load to concurrency {max(pays)}, the highest at which K = {most} gains"
        if pays
        else "limit the load"
    )
    best = max((point for point in points if point.concurrency == busiest), key=lambda point: point.gain)
    if best.k == most or best.gain <= 0:
        return f"{limit}; no smaller K gains at concurrency {busiest} either"
    return f"{limit}, or lower K to {best.k}, which gains {100 * best.gain:.1f} % at concurrency {busiest}"
