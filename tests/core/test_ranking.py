"""Which config is faster, and when nobody can say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_specdec.core.duel import beaten, duel
from pytest_specdec.core.ranking import rankings, unranked
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison


def measured(config_id: str, tpot_spec_ms: float, **changes: Any) -> Comparison:
    """Noisy as a real one; every config has noise of its own."""
    settings = {"noise": 0.05, "prompt_spread": 0.2, "round_drift": 0.02, "seed": len(config_id)} | changes
    return replace(build_comparison(tpot_spec_ms=tpot_spec_ms, **settings), config_id=config_id)


def test_the_largest_gain_comes_first_and_wins_where_the_intervals_separate() -> None:
    (ranking,) = rankings([measured("slow", 9.0), measured("fast", 5.0), measured("middle", 7.0)])
    assert [one.config_id for one in ranking.contenders] == ["fast", "middle", "slow"]
    assert ranking.winner == "fast"


def test_equal_configs_have_no_winner() -> None:
    (ranking,) = rankings([measured("one", 7.0, seed=1), measured("another", 7.0, seed=2), measured("slow", 9.5)])
    assert ranking.winner is None
    tie = ranking.duel("one", "another")
    assert tie is not None
    assert not tie.told_apart


def test_a_duel_is_paired_by_prompt() -> None:
    # Prompts gain very differently, alike for both configs: only pairing sees the small difference between these.
    one, other = (measured("a", tpot, prompt_spread=0.5, noise=0.002, round_drift=0.0, seed=5) for tpot in (7.0, 6.6))
    (ranking,) = rankings([one, replace(other, config_id="b")])
    gains = [contender.gain for contender in ranking.contenders]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0].low is not None
    assert gains[1].high is not None
    assert gains[0].low < gains[1].high
    assert ranking.winner == "b"
    assert duel(one, replace(other, config_id="b")).less_time.value == pytest.approx(1 - 6.6 / 7.0, abs=0.01)


def test_more_pairs_share_the_confidence() -> None:
    one, other = measured("a", 7.0, seed=1), measured("b", 6.0, seed=2)
    alone, among_ten = (duel(one, other, pairs=pairs).less_time for pairs in (1, 10))
    assert alone.level == pytest.approx(1 - 0.05 / 4)  # looks after 4, 6, 8 and 12 rounds
    assert among_ten.level == pytest.approx(1 - (1 - (alone.level or 0)) / 10)
    assert None not in (alone.low, among_ten.low)
    assert among_ten.low < alone.low  # type: ignore[operator] # as the line above says


def test_a_duel_does_not_depend_on_who_is_named_first() -> None:
    one, other = measured("a", 7.0, seed=1), measured("b", 6.0, seed=2)
    assert duel(one, other) == duel(other, one)


def test_equal_configs_are_seldom_told_apart() -> None:
    # 95 % confidence, shared by the planned looks: of 60 pairs of equal configs hardly one is told apart.
    wrong = sum(
        duel(measured("a", 7.0, seed=2 * seed), measured("b", 7.0, seed=2 * seed + 1)).told_apart for seed in range(60)
    )
    assert wrong <= 3


def test_configs_measured_for_different_numbers_of_rounds_are_compared_over_those_that_both_have() -> None:
    one, other = measured("a", 5.0, rounds=4), measured("b", 9.0, rounds=8)
    (ranking,) = rankings([one, replace(other, load=one.load)])
    assert ranking.winner == "a"
    assert ranking.duels[0].less_time.samples == 4


def test_requests_that_do_not_coincide_are_compared_by_both_intervals() -> None:
    other = measured("b", 5.0)
    moved = replace(
        other,
        runs=tuple(
            replace(run, samples=tuple(replace(sample, prompt=sample.prompt + 100) for sample in run.samples))
            for run in other.runs
        ),
        workload=replace(other.workload, prompts=200),
    )
    found = duel(measured("a", 9.0), moved)
    assert found.less_time.basis == "both intervals together"
    assert (found.ahead, found.told_apart) == ("b", True)


def test_other_loads_are_other_rankings_and_lone_configs_have_none() -> None:
    busy = replace(build_comparison().load, concurrency=8)
    found = rankings([measured("a", 7.0), measured("b", 8.0), measured("a", 7.0, load=busy)])
    assert [ranking.load.concurrency for ranking in found] == [4]


def test_rounds_and_budget_are_no_conditions() -> None:
    other = measured("b", 8.0)
    longer = replace(other, load=replace(other.load, max_rounds=24, budget_s=60.0))
    assert len(rankings([measured("a", 7.0), longer])) == 1


def test_throughput_is_that_of_the_highest_load() -> None:
    busy = replace(build_comparison().load, concurrency=8)
    found = rankings(
        [measured(name, tpot, load=load) for load in (None, busy) for name, tpot in (("a", 6.0), ("b", 8.0))]
    )
    assert [
        {one.throughput_load.concurrency for one in ranking.contenders if one.throughput_load} for ranking in found
    ] == [{8}, {8}]


def test_ports_and_names_of_launches_do_not_make_another_baseline() -> None:
    def launched(comparison: Comparison, port: int, *flags: str) -> Comparison:
        command = ("serve", "--port", str(port), "--served-model-name", f"n{port}", "-p", f"{port}:{port}", *flags)
        return replace(comparison, servers=tuple(replace(s, command=command) for s in comparison.servers))

    one, other = launched(measured("a", 7.0), 8001), launched(measured("b", 8.0), 8002)
    assert len(rankings([one, other])) == 1
    assert unranked([one, other]) == ()
    changed = launched(measured("b", 8.0), 8002, "--enforce-eager")
    assert rankings([one, changed]) == ()
    assert unranked([one, changed]) == (("a", "b"),)


def test_a_config_without_a_gain_is_listed_last_with_the_reason() -> None:
    one_token = measured("b", 5.0)
    broken = replace(
        one_token,
        runs=tuple(
            replace(run, samples=tuple(replace(sample, error="HTTP 500") for sample in run.samples))
            if run.arm == "specdec"
            else run
            for run in one_token.runs
        ),
    )
    (ranking,) = rankings([broken, measured("a", 7.0), measured("c", 9.0)])
    assert [one.config_id for one in ranking.contenders] == ["a", "c", "b"]
    assert "HTTP 500" in ranking.contenders[-1].problem
    assert ranking.winner == "a"


def test_one_round_ranks_nothing() -> None:
    single = replace(measured("b", 5.0), runs=measured("b", 5.0).runs[:2])
    (ranking,) = rankings([measured("a", 7.0), single])
    assert ranking.contenders[-1].problem == "only one round is complete"
    assert ranking.winner is None


def test_side_effects_are_in_the_table() -> None:
    (ranking,) = rankings([measured("a", 7.0), measured("b", 8.0)])
    first = ranking.contenders[0]
    assert first.startup_s == 45.0
    assert first.kv_capacity_loss is None
    assert first.acceptance_length is not None
    assert np.isclose(first.tokens_per_step or 0, first.acceptance_length, rtol=0.1)


def test_whoever_loses_a_duel_beyond_doubt_is_beaten() -> None:
    assert beaten([measured("slow", 9.0), measured("fast", 7.0), measured("as fast", 7.0)]) == {"slow"}
    assert beaten([measured("alone", 9.0)]) == frozenset()
