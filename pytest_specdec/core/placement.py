"""How the two servers share the machine: decided from facts about devices and sizes, each decision with its reason.

| placement | servers | rounds |
|---|---|---|
| together | both loaded on the same devices, each with a share of the memory | alternate |
| swap | both alive, one asleep (vLLM's sleep mode), so that each has the memory to itself | alternate |
| sequential | one alive at any time | in blocks, A B B A |
| split | each on devices of its own, exchanged half-way | alternate |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import LaunchError

if TYPE_CHECKING:
    from pytest_specdec.core.config_schema import Placement
    from pytest_specdec.core.course import PlacedKind

TOGETHER_SHARE = 0.45
"""Of a device's memory for each of two loaded servers; vLLM's default of 0.9 would leave nothing to the second."""
ROOMY = 0.6
"""Both servers' weights and reserves may take this share of a device, so that the rest is a useful KV cache for each."""
FULL_SHARE = 0.9
"""vLLM's own default for a server that has the device to itself."""
RESERVE_GIB = 2.0
"""What a server needs beside weights and KV cache: CUDA's context, activations, captured graphs."""
SLEEPER_GIB = 4.0
"""What a sleeping server keeps on the device, generously: CUDA's context and captured graphs."""
LEAST_KV_GIB = 1.0
_HOST_SHARE = 0.8
"""Of the host's memory, for the weights of servers that sleep."""


@dataclass(frozen=True)
class Facts:
    """What a decision rests on. Sizes in GiB."""

    wanted: Placement
    memory_gib: tuple[float, ...] = ()
    """Of every device that can be seen, in CUDA's order; empty without a GPU."""
    devices_each: int = 1
    """Devices that one server takes: tensor times pipeline times data parallel size."""
    shards: int = 1
    """Devices over which one copy of the weights is spread: tensor times pipeline parallel size."""
    assigned: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """The config's ``devices`` for baseline and specdec, as places among those that can be seen."""
    target_gib: float | None = None
    """Weights; None where nobody knows."""
    draft_gib: float | None = 0.0
    memory_share: float | None = None
    """``gpu_memory_utilization``, where the config sets it."""
    host_memory_gib: float | None = None
    container: bool = False
    """The servers run in containers, whose devices and environment the plugin does not choose."""
    dev_mode_in_container: bool = False
    """The command passes VLLM_SERVER_DEV_MODE into the container."""
    where: str = ""
    """The config's place, for errors."""

    @property
    def apart(self) -> bool:
        """Whether the config gives each server devices of its own."""
        return self.assigned is not None and set(self.assigned[0]).isdisjoint(self.assigned[1])

    @property
    def device_gib(self) -> float:
        """Memory of the smallest device that the servers share."""
        places = self.assigned[0] if self.assigned else range(self.devices_each)
        return min((self.memory_gib[place] for place in places if place < len(self.memory_gib)), default=0.0)


@dataclass(frozen=True)
class Placed:
    """A decision."""

    kind: PlacedKind
    reason: str
    """The end of a sentence that begins with "because"."""
    devices: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Places of baseline and specdec among the devices that can be seen; None where vLLM takes the first ones."""
    memory_share: float | None = None
    """For ``--gpu-memory-utilization`` of both servers; None to leave it to vLLM."""

    @property
    def both_at_once(self) -> bool:
        """Whether both servers can answer at any time."""
        return self.kind in ("together", "split")

    @property
    def sentence(self) -> str:
        """``placement: swap, because ...``."""
        return f"placement: {self.kind}, because {self.reason}"


def decide(facts: Facts) -> Placed:
    """The placement that the config names, or the best one for ``auto``.

    Raises:
        LaunchError: What the config names cannot work here, or the model does not fit.
    """
    return _automatic(facts) if facts.wanted == "auto" else _as_wanted(facts, facts.wanted, "the config says so")


def swap_share(device_gib: float) -> float:
    """Share of a device for the server that is awake; the rest is for what the sleeping one keeps."""
    return min(FULL_SHARE, math.floor(100 * (1 - SLEEPER_GIB / device_gib)) / 100) if device_gib > SLEEPER_GIB else 0.0


def _automatic(facts: Facts) -> Placed:
    seen = len(facts.memory_gib)
    if not seen:
        return _as_wanted(facts, "together", "there is no GPU here")
    if facts.container:
        reason = "the servers run in containers, whose devices and sleep mode are not the plugin's to choose"
        return _as_wanted(facts, "together", reason)
    if facts.apart:
        return _as_wanted(facts, "split", "`devices` gives each server its own")
    if facts.assigned is None and seen >= 2 * facts.devices_each:
        return _as_wanted(facts, "split", f"{seen} GPUs can be seen and a server takes {facts.devices_each}")
    return _on_one_set(facts)


def _on_one_set(facts: Facts) -> Placed:
    if facts.target_gib is None or facts.draft_gib is None:
        whose = "target" if facts.target_gib is None else "draft"
        return _as_wanted(
            facts,
            "swap",
            f"the size of the {whose} is not known before it is loaded, and so each has the GPU to itself",
        )
    memory = facts.device_gib
    one = (facts.target_gib + facts.draft_gib) / facts.shards + RESERVE_GIB
    both = one + facts.target_gib / facts.shards + RESERVE_GIB
    once = f"the speculating server takes {one:.1f} of {memory:.1f} GiB before its KV cache"
    if facts.memory_share is not None and facts.memory_share > 1 / 2:
        crowded = f"gpu_memory_utilization {facts.memory_share:g} leaves no room for a second loaded server"
    elif both <= ROOMY * memory:
        return _as_wanted(facts, "together", f"both servers take {both:.1f} of {memory:.1f} GiB before their KV caches")
    else:
        crowded = f"both servers would take {both:.1f} of {memory:.1f} GiB before their KV caches"
    asleep = 2 * facts.target_gib + facts.draft_gib
    if one + LEAST_KV_GIB <= swap_share(memory) * memory:
        if facts.host_memory_gib is None or asleep <= _HOST_SHARE * facts.host_memory_gib:
            return _as_wanted(facts, "swap", crowded)
        reason = f"weights asleep would take {asleep:.1f} of the host's {facts.host_memory_gib:.1f} GiB"
        return _as_wanted(facts, "sequential", f"{crowded}, and {reason}")
    if one + LEAST_KV_GIB <= FULL_SHARE * memory:
        return _as_wanted(facts, "sequential", f"{once}, which leaves no room for a sleeping one")
    raise LaunchError(
        f"the model does not fit: {once}",
        where=facts.where,
        remedy="Spread it over more devices (serve: {tensor_parallel_size: 2}), or name a `placement` to try it all the same.",
    )


def _as_wanted(facts: Facts, kind: PlacedKind, reason: str) -> Placed:
    if kind == "together":
        return _together(facts, reason)
    if kind == "swap":
        _check_swap(facts)
        return Placed(kind, reason, facts.assigned, swap_share(facts.device_gib) or None)
    if kind == "split":
        return Placed(kind, reason, _split_devices(facts))
    return Placed(kind, reason, facts.assigned)


def _together(facts: Facts, reason: str) -> Placed:
    if not facts.memory_gib or facts.apart:
        return Placed("together", reason, facts.assigned)
    if facts.memory_share is not None and facts.memory_share > 1 / 2 and not facts.container:
        raise LaunchError(
            f"placement together loads both servers on the same devices, and gpu_memory_utilization {facts.memory_share:g} "
            "for each is more than there is",
            where=facts.where,
            remedy="Lower it to 0.45, or set `placement: swap`.",
        )
    return Placed("together", reason, facts.assigned, TOGETHER_SHARE)


def _check_swap(facts: Facts) -> None:
    if not facts.memory_gib:
        raise LaunchError(
            "placement swap needs a GPU: vLLM's sleep mode frees GPU memory, and no GPU can be seen here",
            where=facts.where,
            remedy="Set `placement: sequential` or `together`. If there is a GPU: pip install 'pytest-specdec[gpu]', which reads it.",
        )
    if facts.apart:
        raise LaunchError(
            "placement swap shares devices, and `devices` gives each server its own",
            where=facts.where,
            remedy="Set `placement: split`, or give both servers the same devices.",
        )
    if facts.container and not facts.dev_mode_in_container:
        raise LaunchError(
            "placement swap needs VLLM_SERVER_DEV_MODE=1 inside the container",
            where=facts.where,
            remedy="Add `-e VLLM_SERVER_DEV_MODE=1` to `command`.",
        )


def _split_devices(facts: Facts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    seen, each = len(facts.memory_gib), facts.devices_each
    if not seen:
        raise LaunchError(
            "placement split needs GPUs, one (set) for each server, and none can be seen here",
            where=facts.where,
            remedy="Set `placement: together` or `sequential`. If there are GPUs: pip install 'pytest-specdec[gpu]', which reads them.",
        )
    if facts.container:
        raise LaunchError(
            "placement split chooses devices, and cannot do so for containers",
            where=facts.where,
            remedy="Set `placement: sequential` or `together`.",
        )
    if facts.assigned is not None:
        short = [arm for arm, places in zip(("baseline", "specdec"), facts.assigned, strict=True) if len(places) < each]
        if short:
            raise LaunchError(
                f"a server takes {each} devices (its parallel sizes multiplied), and devices.{short[0]} names fewer",
                where=facts.where,
                remedy="Name as many for each server, or lower tensor_parallel_size.",
            )
        if not facts.apart:
            raise LaunchError(
                "placement split gives each server its own devices, and `devices` shares one",
                where=facts.where,
                remedy="Separate them, or set `placement: swap`.",
            )
        return facts.assigned
    if seen < 2 * each:
        raise LaunchError(
            f"placement split needs {2 * each} GPUs, {each} for each server, and {seen} can be seen",
            where=facts.where,
            remedy="Set `placement: swap` or `sequential`.",
        )
    return tuple(range(each)), tuple(range(each, 2 * each))
