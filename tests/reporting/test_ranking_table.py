"""How a ranking is shown: columns, who won, and when nobody did."""

from __future__ import annotations

from dataclasses import replace

from pytest_specdec.core.duel import Duel
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.ranking import Contender, Ranking
from pytest_specdec.core.verdict import Estimate
from pytest_specdec.reporting.ranking import ranking_lines, unranked_line

EAGLE3 = Contender(
    config_id="eagle3",
    method="eagle3",
    num_speculative_tokens=3,
    rounds=4,
    gain=Estimate(0.312, 0.281, 0.34, 0.9875),
    problem="",
    acceptance_length=2.314,
    tokens_per_step=2.31,
    throughput=Estimate(0.123, 0.1, 0.14, 0.9875),
    throughput_load=LoadSpec(concurrency=16),
    kv_capacity_loss=0.021,
    gpu_memory_gib=17.26,
    startup_s=34.4,
)
NGRAM = replace(
    EAGLE3,
    config_id="ngram",
    method="ngram",
    gain=Estimate(-0.031, -0.06, 0.01, 0.9875),
    acceptance_length=3.18,
    tokens_per_step=1.08,
    throughput=Estimate(-0.1, -0.2, 0.0, 0.9875),
    kv_capacity_loss=0.0,
    gpu_memory_gib=16.1,
    startup_s=30.2,
)
APART = Duel("eagle3", "ngram", Estimate(0.333, 0.28, 0.37, 0.98))
RANKING = Ranking("chat", LoadSpec(), (EAGLE3, NGRAM), (APART,))


def test_table_and_winner_fit_80_columns() -> None:
    lines = ranking_lines(RANKING)
    assert max(map(len, lines)) <= 80
    assert lines == [
        "ranking by speed per token: chat, 64 requests at concurrency 8",
        "    TPOT gain                AL    tok/step  tok/s    KV lost  GPU GiB  start",
        "  eagle3",
        "    31.2 % (28.1 .. 34.0 %)  2.31  2.31      +12.3 %  2.1 %    17.3     34 s",
        "  ngram",
        "    -3.1 % (-6.0 .. 1.0 %)   3.18  1.08      -10.0 %  0.0 %    16.1     30 s",
        "  winner: eagle3: 28.0 .. 37.0 % less time per token than ngram",
        "  tok/s: throughput gain at the highest load measured, concurrency 16",
    ]


def test_figures_that_nobody_has_are_left_out_and_names_stand_beside_the_rest() -> None:
    cpu = [replace(one, gpu_memory_gib=None, kv_capacity_loss=None) for one in (EAGLE3, NGRAM)]
    lines = ranking_lines(replace(RANKING, contenders=tuple(cpu)))
    assert lines[1] == "  config  TPOT gain                AL    tok/step  tok/s    start"
    assert lines[2] == "  eagle3  31.2 % (28.1 .. 34.0 %)  2.31  2.31      +12.3 %  34 s"


def test_no_winner_is_named_where_the_interval_holds_zero() -> None:
    tie = replace(APART, less_time=Estimate(0.01, -0.02, 0.05, 0.98))
    lines = ranking_lines(replace(RANKING, duels=(tie,)))
    assert not any(line.startswith("  winner") for line in lines)
    text = " ".join(line.strip() for line in lines)
    assert "no winner: eagle3 and ngram cannot be told apart with these rounds (-2.0 .. 5.0 %)" in text


def test_an_interval_that_says_nothing_is_not_spelled_out() -> None:
    wild = replace(APART, less_time=Estimate(0.01, -14083.1, 0.9, 0.98))
    text = " ".join(line.strip() for line in ranking_lines(replace(RANKING, duels=(wild,))))
    assert "(below -100 .. 90.0 %)" in text


def test_a_method_that_the_name_does_not_tell_is_shown() -> None:
    renamed = replace(EAGLE3, config_id="candidate")
    lines = ranking_lines(Ranking("chat", LoadSpec(), (renamed, NGRAM), (replace(APART, ahead="candidate"),)))
    assert "  candidate (eagle3 K=3)" in lines


def test_a_config_without_a_gain_says_why() -> None:
    broken = replace(NGRAM, gain=None, problem="2 of 64 requests failed")
    lines = ranking_lines(Ranking("chat", LoadSpec(), (EAGLE3, broken), ()))
    assert lines[-1] == "  ngram is not ranked: 2 of 64 requests failed"
    assert not any("winner" in line for line in lines)


def test_highest_loads_that_differ_are_named_per_config() -> None:
    other = replace(NGRAM, throughput_load=LoadSpec(concurrency=4))
    lines = ranking_lines(replace(RANKING, contenders=(EAGLE3, other)))
    text = " ".join(line.strip() for line in lines[-2:])
    assert text.endswith("at the highest load measured: eagle3 concurrency 16, ngram concurrency 4")


def test_different_baselines_are_said() -> None:
    assert unranked_line(("a", "b")) == (
        "not ranked: a and b have different baselines (model, server flags or device differ)"
    )
