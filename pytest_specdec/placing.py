"""From a config and a machine to the placement of its servers: gathers the facts, and writes the decision into the config."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.placement import Facts, Placed, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.serving.gpu import DeviceInfo
    from pytest_specdec.serving.machine import Machine

DEV_MODE = "VLLM_SERVER_DEV_MODE"
"""Opens ``/reset_prefix_cache``, so that no round profits from the one before, and ``/sleep``."""


@dataclass(frozen=True)
class Place:
    """Where one config's servers go."""

    placed: Placed
    config: SpecConfig
    """With the placement that was decided, and the devices of each server where they have their own."""
    seen: tuple[DeviceInfo, ...]
    """The devices that this config's servers could use, in CUDA's order."""
    devices_each: int
    fixed_kv: bool = False
    """The config says how large each server's KV cache is, so that none of them measures how much memory is free."""
    needs_gib: Mapping[Arm, float] = field(default_factory=dict)
    """GiB of one device that each server will take; empty where that is not known before they are up."""

    @property
    def starts_side_by_side(self) -> bool:
        """Whether both servers can start at the same time; two that measure the same device's free memory fail."""
        return self.placed.both_at_once and (self.fixed_kv or self.placed.kind == "split")

    def devices(self, config: SpecConfig, arm: Arm) -> tuple[int, ...]:
        """NVML's indices of the devices of one server.

        Args:
            config: This place's, or the one with the devices exchanged.
            arm: Which server.
        """
        places: Sequence[int] = getattr(config.devices, arm) if config.devices else range(self.devices_each)
        return tuple(self.seen[place].index for place in places if place < len(self.seen))

    @property
    def flags(self) -> list[str]:
        """What the placement needs on both sides; an option that the config sets itself stays as it is."""
        from pytest_specdec.serving.sleep import SLEEP_MODE

        share = self.placed.memory_share
        flags = [] if share is None else ["--gpu-memory-utilization", f"{share:g}"]
        return [*flags, SLEEP_MODE] if self.placed.kind == "swap" else flags


def place(config: SpecConfig, machine: Machine) -> Place:
    """Decide where a config's servers go.

    Raises:
        LaunchError: The placement that the config names cannot work on this machine, or the model does not fit.
    """
    facts, seen = facts_of(config, machine)
    placed = decide(facts)
    update: dict[str, object] = {"placement": placed.kind}
    if placed.devices is not None and config.devices is None:
        from pytest_specdec.core.config import Devices

        update["devices"] = Devices(baseline=placed.devices[0], specdec=placed.devices[1])
    needs_gib = _needs_gib(config, facts)
    if placed.kind == "together" and needs_gib and facts.memory_share is None:
        # With a fixed KV cache vLLM takes this share for nothing but a look, as it starts, whether so much memory is free; and
        # beside several servers 45 % are free for those only that look early. The baseline's own need is the same for all its configs.
        placed = replace(placed, memory_share=math.ceil(100 * min(needs_gib.values()) / facts.device_gib) / 100)
    return Place(placed, config.model_copy(update=update), seen, facts.devices_each, _fixed_kv(config, seen), needs_gib)


def untouched(config: SpecConfig, reason: str) -> Place:
    """Of servers that something else places, for that reason."""
    return Place(
        Placed("together", reason), config.model_copy(update={"placement": "together", "devices": None}), (), 0
    )


def exchanged(config: SpecConfig) -> SpecConfig:
    """The config with the devices of its servers the other way round."""
    from pytest_specdec.core.config import Devices

    if config.devices is None:
        return config
    devices = Devices(baseline=config.devices.specdec, specdec=config.devices.baseline)
    return config.model_copy(update={"devices": devices})


def facts_of(config: SpecConfig, machine: Machine) -> tuple[Facts, tuple[DeviceInfo, ...]]:
    """The facts, and the devices that can be seen."""
    from pytest_specdec.core import launcher
    from pytest_specdec.core.server_flags import value_of, words_of

    seen = machine.devices({**os.environ, **config.env})
    command = config.command or ()
    words = (*command, *words_of(config.serve))
    shards = _count(words, "tensor-parallel-size") * _count(words, "pipeline-parallel-size")
    target_gib, draft_gib = _weights(config, dummy=value_of(words, "load-format") == "dummy") if seen else (None, None)
    share = value_of(words, "gpu-memory-utilization")
    facts = Facts(
        wanted=config.placement,
        memory_gib=tuple(device.memory_total_gib for device in seen),
        devices_each=shards * _count(words, "data-parallel-size"),
        shards=shards,
        assigned=(config.devices.baseline, config.devices.specdec) if config.devices else None,
        target_gib=target_gib,
        draft_gib=draft_gib,
        memory_share=_share(share),
        host_memory_gib=machine.host().memory_gib if seen else None,
        container=launcher.starts_container(command),
        dev_mode_in_container=any(DEV_MODE in word for word in command),
        where=config.where("placement"),
    )
    return facts, seen


def _weights(config: SpecConfig, *, dummy: bool) -> tuple[float | None, float | None]:
    """GiB of target and draft; 0 for methods that need no checkpoint of their own."""
    from pytest_specdec.serving.weights import weights_gib

    env = {**os.environ, **config.env}
    draft = config.speculative_config.get("model")
    none = config.method in ("ngram", "ngram_gpu", "suffix") or not isinstance(draft, str)
    return (
        weights_gib(config.model, config.folder, dummy=dummy, env=env),
        0.0 if none else weights_gib(str(draft), config.folder, dummy=dummy, env=env),
    )


def _count(words: Sequence[str], option: str) -> int:
    from pytest_specdec.core.server_flags import value_of

    value = value_of(words, option) or ""
    return int(value) if value.isdigit() and int(value) > 0 else 1


def _fixed_kv(config: SpecConfig, seen: Sequence[DeviceInfo]) -> bool:
    from pytest_specdec.serving.command import has_flag

    variable = "VLLM_CPU_KVCACHE_SPACE"
    return has_flag(config, "--kv-cache-memory-bytes") or (not seen and variable in {**os.environ, **config.env})


def _needs_gib(config: SpecConfig, facts: Facts) -> dict[Arm, float]:
    from pytest_specdec.core.server_flags import value_of, words_of
    from pytest_specdec.core.start_ahead import gib_of, need_gib

    if facts.target_gib is None or facts.draft_gib is None:
        return {}
    needs: dict[Arm, float] = {}
    weights: dict[Arm, float] = {"baseline": facts.target_gib, "specdec": facts.target_gib + facts.draft_gib}
    for arm, gib in weights.items():
        own = words_of(config.serve_specdec) if arm == "specdec" else []
        kv_gib = gib_of(
            value_of((*(config.command or ()), *words_of(config.serve), *own), "kv-cache-memory-bytes") or ""
        )
        if kv_gib is None:
            return {}
        # A share that the config sets must be free when the server starts, whatever it needs.
        needs[arm] = max(need_gib(gib / facts.shards, kv_gib), (facts.memory_share or 0.0) * facts.device_gib)
    return needs


def _share(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:  # vLLM will say so
        return None
