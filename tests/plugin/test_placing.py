"""The facts that a config and a machine amount to, and what the decision does to the config."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import SpecConfig, load_configs
from pytest_specdec.placing import exchanged, facts_of, place
from tests.plugin.pretended import PretendedMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_specdec.core.samples import Arm

GIB = 1024**3
CONTAINER = {
    "command": ["docker", "run", "--name", "{name}", "--network", "host", "vllm/vllm-openai"],
    "stop_command": ["docker", "rm", "-f", "{name}"],
}


@pytest.fixture
def make_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SpecConfig]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, gib in (("target", 15), ("head", 1)):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "model.safetensors").open("wb") as file:
            file.truncate(gib * GIB)

    def make(**envelope: Any) -> SpecConfig:
        content = {
            "model": "./target",
            "speculative_config": {"method": "eagle3", "model": "./head", "num_speculative_tokens": 3},
        } | envelope
        (tmp_path / "c.json").write_text(json.dumps(content))
        configs, _ = load_configs([tmp_path / "c.json"], default_model=None)
        return configs[0]

    return make


def test_facts_of_a_plain_config(make_config: Callable[..., SpecConfig]) -> None:
    facts, seen = facts_of(make_config(), PretendedMachine(1))
    assert (facts.target_gib, facts.draft_gib) == (15.0, 1.0)
    assert (facts.devices_each, facts.shards, facts.memory_share, facts.container) == (1, 1, None, False)
    assert facts.memory_gib == (80.0,)
    assert facts.host_memory_gib == 512.0
    assert [device.index for device in seen] == [0]


@pytest.mark.parametrize(
    ("serve", "each", "shards"),
    [
        ({"tensor_parallel_size": 2}, 2, 2),
        ({"tp": 2, "pp": 2}, 4, 4),
        (["-tp=2", "--data-parallel-size", "3"], 6, 2),
        (["--tensor_parallel_size", "2", "--tensor-parallel-size", "4"], 4, 4),
        ({}, 1, 1),
    ],
)
def test_parallel_sizes_are_multiplied(
    serve: Any, each: int, shards: int, make_config: Callable[..., SpecConfig]
) -> None:
    facts, _ = facts_of(make_config(serve=serve), PretendedMachine(8))
    assert (facts.devices_each, facts.shards) == (each, shards)


@pytest.mark.parametrize(
    ("speculative", "draft_gib"),
    [
        ({"method": "ngram", "num_speculative_tokens": 3}, 0.0),
        ({"method": "mtp", "num_speculative_tokens": 1}, 0.0),
        ({"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3}, None),
    ],
)
def test_the_draft_counts_where_there_is_one(
    speculative: dict[str, Any],
    draft_gib: float | None,
    make_config: Callable[..., SpecConfig],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    facts, _ = facts_of(make_config(speculative_config=speculative), PretendedMachine(1))
    assert facts.draft_gib == draft_gib


def test_the_configs_own_devices_variable_is_what_counts(make_config: Callable[..., SpecConfig]) -> None:
    where = place(make_config(env={"CUDA_VISIBLE_DEVICES": "2,3"}), PretendedMachine(4))
    assert where.placed.kind == "split"
    assert (where.devices(where.config, "baseline"), where.devices(where.config, "specdec")) == ((2,), (3,))


def test_a_split_writes_the_devices_into_the_config(make_config: Callable[..., SpecConfig]) -> None:
    where = place(make_config(serve={"tp": 2}), PretendedMachine(4))
    assert where.config.devices is not None
    assert (where.config.devices.baseline, where.config.devices.specdec) == ((0, 1), (2, 3))
    turned = exchanged(where.config)
    assert turned.devices is not None
    assert (turned.devices.baseline, turned.devices.specdec) == ((2, 3), (0, 1))
    assert where.devices(turned, "baseline") == (2, 3)
    assert exchanged(turned) == where.config


def test_servers_on_one_device_have_the_first(make_config: Callable[..., SpecConfig]) -> None:
    where = place(make_config(placement="swap"), PretendedMachine(3))
    assert where.devices(where.config, "specdec") == (0,)
    assert where.flags("baseline") == ["--gpu-memory-utilization", "0.9", "--enable-sleep-mode"]


@pytest.mark.parametrize(
    ("command", "dev_mode"),
    [
        ("docker run --network host --name {name} -e VLLM_SERVER_DEV_MODE=1 vllm serve", True),
        ("docker run --network host --name {name} vllm serve", False),
    ],
)
def test_a_container_is_known_by_its_command(
    command: str, *, dev_mode: bool, make_config: Callable[..., SpecConfig]
) -> None:
    facts, _ = facts_of(make_config(command=command, stop_command="docker rm -f {name}"), PretendedMachine(1))
    assert (facts.container, facts.dev_mode_in_container) == (True, dev_mode)


def test_without_a_gpu_no_file_is_looked_at(make_config: Callable[..., SpecConfig]) -> None:
    where = place(make_config(), PretendedMachine(0))
    assert where.placed.sentence == "placement: together, because there is no GPU here"
    assert where.flags("baseline") == []
    assert where.devices(where.config, "baseline") == ()


def test_a_share_that_the_config_sets_is_a_fact(make_config: Callable[..., SpecConfig]) -> None:
    config = make_config(serve={"gpu_memory_utilization": 0.8})
    assert facts_of(config, PretendedMachine(1))[0].memory_share == 0.8
    assert place(config, PretendedMachine(1)).placed.kind == "swap"


@pytest.mark.parametrize(
    ("envelope", "gpus", "side_by_side"),
    [
        ({}, 1, True),
        ({"serve": {"gpu_memory_utilization": 0.4}}, 1, False),
        ({"serve": ["--num-gpu-blocks-override", "500"]}, 1, False),
        ({"serve": ["--kv-cache-memory=4294967296"]}, 1, False),
        ({"serve_specdec": {"kv_cache_memory_bytes": 2**32}, "placement": "together"}, 1, False),
        ({"model": "org/unknown", "placement": "together"}, 1, False),
        (CONTAINER, 1, False),
        ({"serve": {"kv_cache_memory_bytes": 2**32}}, 1, True),
        ({"serve": ["--kv-cache-memory-bytes=4294967296"]}, 1, True),
        ({"serve": {"kv_cache_memory_bytes": 2**32}, "placement": "swap"}, 1, False),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "4"}, "model": "org/unknown", "placement": "together"}, 1, False),
        ({}, 2, True),
        ({}, 0, False),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "4"}}, 0, True),
        ({"serve": {"kv_cache_memory_bytes": 2**32}}, 0, True),
    ],
)
def test_servers_start_side_by_side_where_neither_measures_memory_that_the_other_takes(
    envelope: dict[str, Any],
    gpus: int,
    *,
    side_by_side: bool,
    make_config: Callable[..., SpecConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    assert place(make_config(**envelope), PretendedMachine(gpus)).starts_side_by_side is side_by_side


def test_what_each_server_takes_is_known_where_its_cache_is(make_config: Callable[..., SpecConfig]) -> None:
    def needs(**envelope: Any) -> Mapping[Arm, float]:
        return place(make_config(**envelope), PretendedMachine(4)).needs_gib

    assert needs(placement="split") == {}
    assert needs(serve={"kv_cache_memory_bytes": "20G"}) == {"baseline": 37.0, "specdec": 38.0}
    assert needs(serve=["--kv-cache-memory-bytes=20G", "-tp", "2"]) == {"baseline": 29.5, "specdec": 30.0}
    own = {"serve_specdec": {"kv_cache_memory_bytes": "10G"}}
    assert needs(serve={"kv_cache_memory_bytes": "20G"}, **own) == {"baseline": 37.0, "specdec": 28.0}
    assert needs(**own) == {}
    assert needs(model="org/unknown", serve={"kv_cache_memory_bytes": "20G"}) == {}


def test_with_a_fixed_cache_no_more_memory_must_be_free_than_the_server_takes(
    make_config: Callable[..., SpecConfig],
) -> None:
    fixed = {"kv_cache_memory_bytes": "3G"}
    where = place(make_config(serve=fixed), PretendedMachine(1))
    assert dict(where.needs_gib) == {"baseline": 20.0, "specdec": 21.0}  # of 80
    assert where.flags("baseline") == ["--gpu-memory-utilization", "0.25"]
    stated = place(make_config(serve=fixed | {"gpu_memory_utilization": 0.4}), PretendedMachine(1))
    assert dict(stated.needs_gib) == {"baseline": 32.0, "specdec": 32.0}


def test_a_cache_that_the_config_leaves_open_is_chosen_so_that_both_can_start_at_once(
    make_config: Callable[..., SpecConfig],
) -> None:
    where = place(make_config(), PretendedMachine(1))
    # Of 80 GiB each server has 36: weights of 15 and 16, and 6 % of the device for what it needs beside them.
    assert dict(where.needs_gib) == pytest.approx({"baseline": 33.2, "specdec": 33.2})
    assert where.flags("baseline") == ["--gpu-memory-utilization", "0.42", "--kv-cache-memory-bytes", "16G"]
    assert where.flags("specdec") == ["--gpu-memory-utilization", "0.42", "--kv-cache-memory-bytes", "15564M"]
    assert where.flags("specdec", measured=True) == ["--gpu-memory-utilization", "0.45"]


def test_a_device_without_room_for_a_cache_of_that_size_leaves_it_to_vllm(
    make_config: Callable[..., SpecConfig],
) -> None:
    where = place(make_config(placement="together"), PretendedMachine(1, memory_gib=42.0))
    assert (where.own_kv, where.starts_side_by_side) == (None, False)  # 18.9 - 16 - 2.5 GiB
    assert where.flags("specdec") == ["--gpu-memory-utilization", "0.45"]
