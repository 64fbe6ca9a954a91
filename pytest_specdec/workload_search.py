"""Where the name of a workload leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.workload_mix import MixPart
    from pytest_specdec.core.workload_options import WorkloadOptions
    from pytest_specdec.load.workload import Workload


@dataclass(frozen=True)
class FoundWorkload:
    """What stands behind a workload's name."""

    path: Path
    options: WorkloadOptions | None = None
    """As the config's entry states them; None where the name leads to a file alone."""
    parts: tuple[tuple[MixPart, FoundWorkload], ...] = ()
    """Where the name stands for several workloads."""
    weights: Mapping[str, float] | None = None
    """Share of each of them in the traffic, where mark or config state it."""


def find_workload(name: str, *, config: SpecConfig, ini: Mapping[str, Path], test_dir: Path) -> FoundWorkload:
    """Where a workload's name leads: the envelope, the ini option, a path beside the test file, the bundled ones.

    ``a + b`` and ``a=0.6 + b=0.4`` lead to several, ``mix`` to all of the envelope that have a weight.

    A folder beside the test file is taken only where no bundled workload has its name.

    Raises:
        WorkloadError: Nothing of that name; the message lists what there is.
    """
    from pathlib import Path

    from pytest_specdec.core.errors import WorkloadError
    from pytest_specdec.core.model_paths import near_path
    from pytest_specdec.core.suggest import did_you_mean
    from pytest_specdec.core.workload_mix import MIX, mix_parts
    from pytest_specdec.load.bundled import bundled_workloads

    parts = mix_parts(name)
    if name == MIX and MIX not in {*config.workloads, *ini} and not (test_dir / MIX).exists():
        parts = _weighted(config)
    if parts and not (test_dir / name).exists():
        found = [(part, find_workload(part.name, config=config, ini=ini, test_dir=test_dir)) for part in parts]
        path = Path(" + ".join(str(each.path) for _, each in found))
        return FoundWorkload(path, parts=tuple(found), weights=_weights(parts, config))
    if name in config.workloads:
        entry = config.workloads[name]
        return FoundWorkload(entry.path, entry.options())
    if name in ini:
        return FoundWorkload(ini[name])
    beside = test_dir / name
    if beside.is_file():
        return FoundWorkload(beside)
    bundled = bundled_workloads()
    if name in bundled:
        return FoundWorkload(bundled[name])
    if beside.is_dir():
        return FoundWorkload(beside)
    near = near_path(name, test_dir)
    known = sorted({*config.workloads, *ini, *bundled})
    suggestion = did_you_mean(name, known) or near
    raise WorkloadError(
        f"no workload is called {name!r}" + (f"; did you mean {suggestion!r}?" if suggestion else ""),
        remedy=f"Known here: {', '.join(known)}. A path is looked for beside the test file, in {test_dir}.",
    )


def read_found(name: str, found: FoundWorkload) -> Workload:
    """The prompts behind a name.

    Raises:
        WorkloadError: A file cannot be used.
    """
    from pytest_specdec.load.mixing import mixed
    from pytest_specdec.load.workload import read_workload

    if not found.parts:
        return read_workload(found.path, name=name, options=found.options)
    parts = [read_workload(each.path, name=part.name, options=each.options) for part, each in found.parts]
    shares = {part.name: 1.0 if part.share is None else part.share for part, _ in found.parts}
    total = sum(shares.values())
    return mixed(name, parts, shares={name: share / total for name, share in shares.items()}, weights=found.weights)


def _weighted(config: SpecConfig) -> tuple[MixPart, ...]:
    from pytest_specdec.core.errors import WorkloadError
    from pytest_specdec.core.workload_mix import MIX, MixPart

    parts = tuple(MixPart(name, entry.weight) for name, entry in config.workloads.items() if entry.weight is not None)
    if not parts:
        raise WorkloadError(
            f"workload {MIX!r} stands for the config's workloads with a weight, and {config.path.name} has none",
            remedy="Give every entry of `workloads` its `weight`, or name them: workload={'code': 0.6, 'chat': 0.4}.",
        )
    return parts


def _weights(parts: tuple[MixPart, ...], config: SpecConfig) -> dict[str, float] | None:
    """Shares of the traffic: as the name states them, else those of the config where all parts have one."""
    shares = {part.name: part.share for part in parts}
    if None in shares.values():
        shares = {name: config.workloads[name].weight if name in config.workloads else None for name in shares}
    known = {name: share for name, share in shares.items() if share is not None}
    total = sum(known.values())
    return {name: share / total for name, share in known.items()} if len(known) == len(shares) else None
