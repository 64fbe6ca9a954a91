"""Which placement is decided on which facts, and that the reason given is the one that counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.core.placement import FULL_SHARE, ROOMY, SLEEPER_GIB, Facts, decide, swap_share

H200 = 140.0


def facts(**changes: Any) -> Facts:
    """One large GPU, an 8B target of 15 GiB and a head of 1 GiB."""
    return replace(
        Facts(
            "auto", memory_gib=(H200,), target_gib=15.0, draft_gib=1.0, host_memory_gib=512.0, where="c.yaml: placement"
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("changes", "kind", "because"),
    [
        ({"memory_gib": ()}, "together", "there is no GPU here"),
        ({}, "together", "both servers take 35.0 of 140.0 GiB before their KV caches"),
        ({"memory_gib": (H200, H200)}, "split", "2 GPUs can be seen and a server takes 1"),
        (
            {"memory_gib": (H200,) * 3, "devices_each": 2, "shards": 2},
            "together",
            "both servers take 19.5 of 140.0 GiB",
        ),
        (
            {"memory_gib": (H200,) * 4, "devices_each": 2, "shards": 2},
            "split",
            "4 GPUs can be seen and a server takes 2",
        ),
        ({"memory_gib": (48.0,)}, "swap", "both servers would take 35.0 of 48.0 GiB before their KV caches"),
        ({"memory_gib": (24.0,)}, "swap", "both servers would take 35.0 of 24.0 GiB"),
        (
            {"memory_gib": (22.0,)},
            "sequential",
            "the speculating server takes 18.0 of 22.0 GiB before its KV cache, which",
        ),
        ({"target_gib": None}, "swap", "the size of the target is not known before it is loaded"),
        ({"draft_gib": None}, "swap", "the size of the draft is not known before it is loaded"),
        ({"memory_share": 0.8}, "swap", "gpu_memory_utilization 0.8 leaves no room for a second loaded server"),
        ({"memory_share": 0.4}, "together", "both servers take 35.0"),
        (
            {"memory_gib": (48.0,), "host_memory_gib": 32.0},
            "sequential",
            "weights asleep would take 31.0 of the host's 32.0 GiB",
        ),
        ({"memory_gib": (48.0,), "host_memory_gib": None}, "swap", "both servers would take"),
        ({"assigned": ((0,), (1,)), "memory_gib": (H200, H200)}, "split", "`devices` gives each server its own"),
        ({"assigned": ((0,), (0,)), "memory_gib": (H200, H200)}, "together", "both servers take 35.0"),
        ({"assigned": ((1,), (1,)), "memory_gib": (H200, 48.0)}, "swap", "both servers would take 35.0 of 48.0 GiB"),
        ({"container": True, "memory_gib": (H200, H200)}, "together", "the servers run in containers"),
    ],
)
def test_auto(changes: dict[str, Any], kind: str, because: str) -> None:
    placed = decide(facts(**changes))
    assert placed.kind == kind
    assert because in placed.reason
    assert placed.sentence == f"placement: {kind}, because {placed.reason}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memory_gib": (16.0,)}, "the model does not fit: the speculating server takes 18.0 of 16.0 GiB"),
        ({"wanted": "swap", "memory_gib": ()}, "placement swap needs a GPU"),
        ({"wanted": "swap", "assigned": ((0,), (1,)), "memory_gib": (H200,) * 2}, "placement swap shares devices"),
        ({"wanted": "swap", "container": True}, "needs VLLM_SERVER_DEV_MODE=1 inside the container"),
        ({"wanted": "split", "memory_gib": ()}, "placement split needs GPUs"),
        ({"wanted": "split"}, "placement split needs 2 GPUs, 1 for each server, and 1 can be seen"),
        ({"wanted": "split", "memory_gib": (H200,) * 3, "devices_each": 2}, "needs 4 GPUs, 2 for each server, and 3"),
        ({"wanted": "split", "memory_gib": (H200,) * 2, "container": True}, "cannot do so for containers"),
        ({"wanted": "split", "assigned": ((0, 1), (1, 2)), "memory_gib": (H200,) * 3}, "`devices` shares one"),
        (
            {"wanted": "split", "assigned": ((0,), (1,)), "memory_gib": (H200,) * 2, "devices_each": 2},
            "a server takes 2 devices (its parallel sizes multiplied), and devices.baseline names fewer",
        ),
        ({"wanted": "together", "memory_share": 0.9}, "gpu_memory_utilization 0.9 for each is more than there is"),
    ],
)
def test_what_cannot_work_is_an_error_with_place_and_remedy(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        decide(facts(**changes))
    assert said in caught.value.what
    assert caught.value.where == "c.yaml: placement"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "devices", "share"),
    [
        ({"wanted": "together"}, None, 0.45),
        ({"wanted": "together", "memory_gib": ()}, None, None),
        ({"wanted": "together", "assigned": ((0,), (1,)), "memory_gib": (H200,) * 2}, ((0,), (1,)), None),
        ({"wanted": "swap"}, None, 0.9),
        ({"wanted": "swap", "memory_gib": (24.0,)}, None, 0.83),
        ({"wanted": "sequential"}, None, None),
        ({"wanted": "sequential", "memory_gib": ()}, None, None),
        ({"wanted": "split", "memory_gib": (H200,) * 5, "devices_each": 2}, ((0, 1), (2, 3)), None),
        ({"wanted": "split", "memory_gib": (H200,) * 2, "assigned": ((1,), (0,))}, ((1,), (0,)), None),
    ],
)
def test_what_a_placement_sets(changes: dict[str, Any], devices: object, share: float | None) -> None:
    placed = decide(facts(**changes))
    assert placed.kind == changes["wanted"]
    assert placed.reason == "the config says so"
    assert (placed.devices, placed.memory_share) == (devices, share)
    assert placed.both_at_once == (placed.kind in ("together", "split"))


@given(
    memory=st.floats(4, 300),
    target=st.floats(0.1, 300),
    draft=st.floats(0, 50),
    shards=st.integers(1, 4),
    host=st.none() | st.floats(8, 2000),
)
def test_auto_never_places_more_than_there_is(
    memory: float, target: float, draft: float, shards: int, host: float | None
) -> None:
    given_facts = Facts(
        "auto",
        memory_gib=(memory,) * shards,
        devices_each=shards,
        shards=shards,
        target_gib=target,
        draft_gib=draft,
        host_memory_gib=host,
    )
    one = (target + draft) / shards
    try:
        placed = decide(given_facts)
    except LaunchError:
        assert one > FULL_SHARE * memory - SLEEPER_GIB
        return
    if placed.kind == "together":
        assert one + target / shards < ROOMY * memory
    elif placed.kind == "swap":
        assert placed.memory_share is not None
        assert one < placed.memory_share * memory <= memory - SLEEPER_GIB
        assert host is None or 2 * target + draft < host
    else:
        assert placed.kind == "sequential"
        assert one < FULL_SHARE * memory


@given(st.floats(0.1, 1000))
def test_the_server_that_is_awake_leaves_room_for_the_one_asleep(memory: float) -> None:
    assert 0 <= swap_share(memory) <= FULL_SHARE
    assert swap_share(memory) * memory <= max(0.0, memory - SLEEPER_GIB)
