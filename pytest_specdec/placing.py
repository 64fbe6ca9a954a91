"""From a config and a machine to the placement of its servers: gathers the facts, and writes the decision into the config."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.placement import Facts, Placed, decide
from pytest_specdec.core.samples import ARMS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.serving.gpu import DeviceInfo
    from pytest_specdec.serving.machine import Machine

KV_BYTES = "--kv-cache-memory-bytes"
_LARGE_GIB = 16.0
"""From here on a GiB more or less of KV cache is no matter."""
_SAY_HOW_LARGE = (KV_BYTES, "--kv-cache-memory", "--num-gpu-blocks-override")
"""The second one is what vLLM's own advice calls the first."""
START_UP = "max_startup_s"
"""Where it is judged, no server starts beside another."""
DEV_MODE = "VLLM_SERVER_DEV_MODE"
"""Opens ``/reset_prefix_cache``, so that no round profits from the one before, and ``/sleep``."""


@dataclass(frozen=True)
class OwnCaches:
    """KV caches whose sizes the plugin chooses, so that both servers can start at once."""

    gib: Mapping[Arm, float]
    memory_share: float
    """Of the device, which must be free as a server starts."""

    def size(self, arm: Arm) -> str:
        """As vLLM's command line takes it; whole GiB of a large one, so that a small draft does not make the caches differ."""
        gib = self.gib[arm]
        return f"{math.floor(gib)}G" if gib >= _LARGE_GIB else f"{math.floor(1024 * gib)}M"


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
    own_kv: OwnCaches | None = None
    """The plugin says so, since the config does not; None where it cannot know."""
    needs_gib: Mapping[Arm, float] = field(default_factory=dict)
    """GiB of one device that each server will take; empty where that is not known before they are up."""

    @property
    def starts_side_by_side(self) -> bool:
        """Whether both servers can start at the same time; two that measure the same device's free memory fail."""
        return self.placed.both_at_once and (self.fixed_kv or self.own_kv is not None or self.placed.kind == "split")

    def devices(self, config: SpecConfig, arm: Arm) -> tuple[int, ...]:
        """NVML's indices of the devices of one server.

        Args:
            config: This place's, or the one with the devices exchanged.
            arm: Which server.
        """
        places: Sequence[int] = getattr(config.devices, arm) if config.devices else range(self.devices_each)
        return tuple(self.seen[place].index for place in places if place < len(self.seen))

    def flags(self, arm: Arm, *, measured: bool = False) -> list[str]:
        """What the placement needs; an option that the config sets itself stays as it is.

        Args:
            arm: For which server.
            measured: vLLM is to measure how large the KV cache can be, whatever the plugin would choose.
        """
        from pytest_specdec.serving.sleep import SLEEP_MODE

        own = None if measured else self.own_kv
        share = own.memory_share if own else self.placed.memory_share
        flags = [] if share is None else ["--gpu-memory-utilization", f"{share:g}"]
        if own:
            flags += [KV_BYTES, own.size(arm)]
        return [*flags, SLEEP_MODE] if self.placed.kind == "swap" else flags


def must_measure(judged: Collection[str]) -> bool:
    """Whether these objectives need servers that find out alone how large their KV caches can be."""
    return START_UP in judged or "max_kv_capacity_loss" in judged


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
    own_gib = _own_kv_gib(config, facts, placed)
    needs_gib = _needs_gib(config, facts, own_gib)
    own = None
    if placed.kind == "together" and needs_gib and facts.memory_share is None:
        # With a fixed KV cache vLLM takes this share for nothing but a look, as it starts, whether so much memory is free; and
        # beside several servers 45 % are free for those only that look early. The baseline's own need is the same for all its configs.
        share = math.ceil(100 * min(needs_gib.values()) / facts.device_gib) / 100
        if own_gib:
            own = OwnCaches(own_gib, share)
        else:
            placed = replace(placed, memory_share=share)
    fixed = _fixed_kv(config, seen)
    return Place(placed, config.model_copy(update=update), seen, facts.devices_each, fixed, own, needs_gib)


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
    # In `serve` it holds for both; of the speculating server alone it would leave the other one measuring.
    return has_flag(config, KV_BYTES, arm="baseline") or (not seen and variable in {**os.environ, **config.env})


def _own_kv_gib(config: SpecConfig, facts: Facts, placed: Placed) -> dict[Arm, float]:
    """GiB of each server's KV cache, where the plugin can choose it; what the config says of memory is left to vLLM."""
    from pytest_specdec.core.start_ahead import kv_gib
    from pytest_specdec.serving.command import has_flag

    said = facts.memory_share is not None or any(has_flag(config, flag) for flag in _SAY_HOW_LARGE)
    if placed.kind != "together" or placed.memory_share is None or facts.container or said:
        return {}
    sizes = {arm: kv_gib(gib, facts.device_gib) for arm, gib in _weights_each(facts).items()}
    told: dict[Arm, float] = {arm: gib for arm, gib in sizes.items() if gib is not None}
    return told if len(told) == len(ARMS) else {}


def _needs_gib(config: SpecConfig, facts: Facts, own_gib: Mapping[Arm, float]) -> dict[Arm, float]:
    from pytest_specdec.core.server_flags import value_of, words_of
    from pytest_specdec.core.start_ahead import gib_of, need_gib

    needs: dict[Arm, float] = {}
    for arm, gib in _weights_each(facts).items():
        words = words_of(config.serve_specdec) if arm == "specdec" else []
        said = value_of((*(config.command or ()), *words_of(config.serve), *words), KV_BYTES[2:])
        kv_gib = own_gib.get(arm, gib_of(said or ""))
        if kv_gib is None:
            return {}
        # A share that the config sets must be free when the server starts, whatever it needs.
        needs[arm] = max(need_gib(gib, kv_gib), (facts.memory_share or 0.0) * facts.device_gib)
    return needs


def _weights_each(facts: Facts) -> dict[Arm, float]:
    """GiB of weights that each server has on one device; empty where nobody knows."""
    if facts.target_gib is None or facts.draft_gib is None:
        return {}
    return {"baseline": facts.target_gib / facts.shards, "specdec": (facts.target_gib + facts.draft_gib) / facts.shards}


def _share(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:  # vLLM will say so
        return None
