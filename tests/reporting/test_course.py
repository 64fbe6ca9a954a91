"""Placement, warm-ups and times in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.course import BlockRecord, PlacementRecord, TimeSpent, WarmUpRecord
from pytest_specdec.reporting.course import placement_lines, round_lines, time_lines, warm_up_lines
from pytest_specdec.reporting.measurement import conditions, measurement_lines
from pytest_specdec.reporting.terminal import failure_lines, header_lines, session_lines
from tests.core.comparison_builder import build_comparison
from tests.reporting.test_terminal import gate

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary

SWAP = PlacementRecord("swap", "both would not fit", (BlockRecord(0, 4, ("baseline", "specdec"), False, (0, 0)),))
WARM_UP = WarmUpRecord("baseline", 0, 8.04, 8, (0.0092, 0.0062, 0.0061), (1.19, 0.195, 0.19), settled=True)


def test_an_old_result_says_nothing_about_its_course(comparison: Comparison) -> None:
    assert placement_lines(comparison) == warm_up_lines(comparison) == time_lines(comparison) == []


def test_a_placement_is_one_sentence(comparison: Comparison) -> None:
    assert placement_lines(replace(comparison, placement=SWAP)) == ["placement: swap, because both would not fit"]


def test_blocks_are_listed_where_servers_were_launched_anew(comparison: Comparison) -> None:
    blocks = (
        BlockRecord(0, 2, ("baseline", "specdec"), True, (0, 0), tpot_gain=0.312),
        BlockRecord(2, 1, ("specdec", "baseline"), True, (1, 1)),
    )
    sequential = replace(comparison, placement=PlacementRecord("sequential", "the config says so", blocks))
    assert placement_lines(sequential)[1:] == [
        "  rounds 1 to 2, baseline then specdec (baseline launch 1, specdec launch 1): TPOT gain 31.2 %",
        "  round 3, specdec then baseline (baseline launch 2, specdec launch 2)",
    ]
    assert ", in blocks;" in conditions(sequential)


def test_halves_of_a_split_name_their_devices(comparison: Comparison) -> None:
    blocks = (
        BlockRecord(0, 2, ("baseline", "specdec"), False, (0, 0), ((0, 1), (2, 3)), 0.3),
        BlockRecord(2, 2, ("baseline", "specdec"), False, (1, 1), ((2, 3), (0, 1)), 0.2),
    )
    split = replace(comparison, placement=PlacementRecord("split", "4 GPUs", blocks))
    assert placement_lines(split)[1] == (
        "  rounds 1 to 2, alternating (baseline launch 1 on devices 0+1, specdec launch 1 on devices 2+3): TPOT gain 30.0 %"
    )
    assert ", alternating;" in conditions(split)


def test_a_warm_up_shows_how_its_figures_settled(comparison: Comparison) -> None:
    drifting = replace(WARM_UP, arm="specdec", launch=1, tpot_s=(None,), ttft_s=(0.5,), duration_s=31.2, settled=False)
    assert warm_up_lines(replace(comparison, warm_ups=(WARM_UP, drifting))) == [
        "warm-up of baseline: 3 batches of 8 requests in 8.0 s (TPOT 9.2 -> 6.2 -> 6.1 ms, TTFT 1190 -> 195 -> 190 ms)",
        "warm-up of specdec, launch 2: 1 batch of 8 requests in 31 s (TTFT 500 ms); had not settled",
    ]


def test_the_time_is_shown_in_its_parts(comparison: Comparison) -> None:
    servers = tuple(replace(server, stop_s=1.04) for server in comparison.servers)
    spent = replace(comparison, servers=servers, warmup_s=39.4, time=TimeSpent(rounds_s=96.2, switch_s=12.3))
    assert time_lines(spent) == [
        "time: start 63 s (baseline 32 s; specdec 32 s), warm-up 39 s, sleep and wake 12 s, rounds 96 s, stop 2.1 s"
    ]
    running = replace(comparison, time=TimeSpent(rounds_s=9.0))
    assert time_lines(running) == ["time: start 63 s (baseline 32 s; specdec 32 s), warm-up 0.0 s, rounds 9.0 s"]


def test_of_starts_side_by_side_the_slower_one_counts(comparison: Comparison) -> None:
    servers = tuple(replace(server, started_beside=True) for server in comparison.servers)
    alone = replace(servers[1], startup_s=10.0, launch=1, started_beside=False)
    spent = replace(comparison, servers=(*servers, alone), time=TimeSpent(rounds_s=9.0))
    assert time_lines(spent) == [
        "time: start 42 s (baseline 32 s; specdec 32 s; specdec, launch 2 10 s; side by side), warm-up 0.0 s, rounds 9.0 s"
    ]


def test_what_a_long_start_was_spent_on_is_shown(comparison: Comparison) -> None:
    phases = {"starting": 9.0, "loading weights": 3.0, "compiling": 12.0, "capturing CUDA graphs": 8.0}
    baseline, specdec = (replace(server, startup_s=32.0, startup_phases_s=phases) for server in comparison.servers)
    spent = replace(comparison, servers=(baseline, replace(specdec, launch=1)), time=TimeSpent(9.0))
    said = "starting 9.0 s, compiling 12 s, capturing CUDA graphs 8.0 s"
    assert time_lines(spent)[1:] == [f"start of baseline: {said}", f"start of specdec, launch 2: {said}"]
    quick = replace(baseline, startup_s=9.0)
    assert time_lines(replace(spent, servers=(quick, replace(specdec, startup_phases_s={}))))[1:] == []


def test_the_figures_of_every_round_are_shown() -> None:
    """Rounds without noise: 10 ms a token and 7 ms."""
    (line,) = round_lines(build_comparison(rounds=3))
    assert line == "rounds: TPOT 10.00, 10.00, 10.00 ms against 7.00, 7.00, 7.00 ms, gain 30.0, 30.0, 30.0 %"


def test_rounds_without_time_per_token_show_none(comparison: Comparison) -> None:
    assert round_lines(comparison) == []


def test_the_failure_table_has_the_placement_and_show_the_rest(comparison: Comparison, summary: Summary) -> None:
    full = replace(comparison, placement=SWAP, warm_ups=(WARM_UP,), time=TimeSpent(96.0))
    assert "placement: swap, because both would not fit" in measurement_lines(full, summary)
    short = "\n".join(failure_lines(gate(), full, summary))
    long = "\n".join(failure_lines(gate(), full, summary, course=True))
    assert "time: start" not in short
    assert "  time: start" in long
    assert "  warm-up of baseline" in long


def test_a_verbose_summary_tells_the_course_of_every_comparison(comparison: Comparison) -> None:
    full = {"eagle3/chat": replace(comparison, placement=SWAP, warm_ups=(WARM_UP,), time=TimeSpent(96.0), runs=())}
    assert [line.partition(": ")[2].split()[0] for line in session_lines([], full, verbose=True)] == [
        "placement:",
        "warm-up",
        "time:",
    ]
    assert session_lines([], full) == []


def test_the_header_says_why_servers_are_placed_so(tmp_path: Path) -> None:
    from pytest_specdec.core.config import SpecConfig

    config = SpecConfig(id="a", path=tmp_path / "a.json", model="m", speculative_config={"method": "ngram"})
    lines = header_lines([config], [], tmp_path, {"a": "placement: swap, because of its size"})
    assert lines[1] == "specdec: a: placement: swap, because of its size"
