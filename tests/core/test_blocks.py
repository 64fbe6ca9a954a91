"""Which rounds are run when, and what a block showed on its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.blocks import (
    Block,
    affords_two_launches,
    device_difference,
    plan_blocks,
    tpot_ratio,
    with_gains,
)
from pytest_specdec.core.course import BlockRecord, PlacedKind
from pytest_specdec.core.samples import ARMS, Arm
from tests.core.comparison_builder import build_comparison

KINDS: tuple[PlacedKind, ...] = ("together", "swap", "sequential", "split")


@given(
    kind=st.sampled_from(KINDS),
    done=st.integers(0, 12),
    more=st.integers(1, 12),
    first=st.sampled_from(ARMS),
    twice=st.booleans(),
)
def test_every_round_is_run_once_by_each_arm(
    kind: PlacedKind, done: int, more: int, first: Arm, *, twice: bool
) -> None:
    blocks = plan_blocks(kind, done, done + more, first=first, twice=twice)
    steps = [step for block in blocks for step in block.steps]
    assert sorted((index, arm) for index, _, arm in steps) == [
        (index, arm) for index in range(done, done + more) for arm in ARMS
    ]
    assert [block.start for block in blocks[1:]] == [block.stop for block in blocks[:-1]]
    for index in range(done, done + more):
        arms = [arm for each, _, arm in steps if each == index]
        positions = {arm: position for each, position, arm in steps if each == index}
        assert [positions[arm] for arm in arms] == [0, 1]


def test_alternating_goes_on_across_extensions() -> None:
    steps = [
        step for done, up_to in ((0, 3), (3, 6)) for block in plan_blocks("swap", done, up_to) for step in block.steps
    ]
    assert [arm[0] for _, position, arm in steps if position == 0] == list("bsbsbs")


def test_sequential_is_a_b_b_a_on_new_launches() -> None:
    blocks = plan_blocks("sequential", 0, 4)
    assert blocks == (
        Block(0, 2, "baseline", grouped=True),
        Block(2, 4, "specdec", grouped=True, renewed=True),
    )
    assert "".join(arm[0] for block in blocks for _, _, arm in block.steps) == "bbssssbb"


def test_sequential_begins_with_the_server_that_is_up() -> None:
    assert [block.first for block in plan_blocks("sequential", 0, 4, first="specdec")] == ["specdec", "baseline"]


@pytest.mark.parametrize(("done", "up_to", "twice"), [(4, 6, True), (0, 4, False), (0, 1, True)])
def test_sequential_in_one_block(done: int, up_to: int, *, twice: bool) -> None:
    assert plan_blocks("sequential", done, up_to, twice=twice) == (Block(done, up_to, "baseline", grouped=True),)


def test_split_exchanges_the_devices_half_way() -> None:
    assert plan_blocks("split", 0, 4) == (Block(0, 2, "baseline"), Block(2, 4, "baseline", exchanged=True))
    assert plan_blocks("split", 4, 6) == (Block(4, 5, "baseline"), Block(5, 6, "specdec", exchanged=True))
    assert plan_blocks("split", 4, 5) == (Block(4, 5, "baseline"),)


@pytest.mark.parametrize(("startup_s", "twice"), [(170.0, True), (225.0, True), (226.0, False)])
def test_two_launches_need_room_in_the_budget(startup_s: float, *, twice: bool) -> None:
    assert affords_two_launches(startup_s, budget_s=900.0) is twice


def test_the_ratio_is_that_of_the_paired_requests() -> None:
    comparison = build_comparison(tpot_base_ms=10, tpot_spec_ms=7, rounds=2)
    assert tpot_ratio(comparison.runs) == pytest.approx(0.7)
    assert tpot_ratio(comparison.arm("baseline")) is None


def record(devices: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()), **changes: object) -> BlockRecord:
    block = BlockRecord(0, 2, ("baseline", "specdec"), grouped=False, launches=(0, 0), devices=devices)
    return replace(block, **changes)  # type: ignore[arg-type] # names and types are the record's own


def test_each_block_has_its_own_gain() -> None:
    slow, fast = build_comparison(tpot_spec_ms=9, rounds=2), build_comparison(tpot_spec_ms=6, rounds=2)
    runs = [*slow.runs, *(replace(run, round=run.round + 2) for run in fast.runs)]
    blocks = with_gains([record(), record(first_round=2)], runs)
    assert [block.tpot_gain for block in blocks] == [pytest.approx(0.1), pytest.approx(0.4)]


@given(st.floats(0.3, 1.5), st.floats(0.8, 1.25))
def test_a_slower_device_is_named_and_its_factor_found(ratio: float, slowness: float) -> None:
    """Device 1 is ``slowness`` times slower: specdec suffers from it in one half, the baseline in the other."""
    halves = [
        record(((0,), (1,)), tpot_gain=1 - ratio * slowness),
        record(((1,), (0,)), tpot_gain=1 - ratio / slowness),
    ]
    said = device_difference(halves)
    assert said is not None
    percent = 100 * (max(slowness, 1 / slowness) - 1)
    assert f"device {1 if slowness >= 1 else 0} is {percent:.1f} % slower" in said or percent < 0.1


@pytest.mark.parametrize("blocks", [[], [record()], [record(((0,), (1,)), tpot_gain=0.2)], [record(tpot_gain=0.2)] * 2])
def test_without_an_exchange_nothing_is_said_about_devices(blocks: list[BlockRecord]) -> None:
    assert device_difference(blocks) is None
