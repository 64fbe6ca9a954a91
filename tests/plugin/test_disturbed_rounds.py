"""A run that something disturbed is measured again, a few times; it is never part of a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec import rounds
from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from pytest_specdec.core.samples import ArmRun, Comparison

LATE_S = 99.0
SECOND_ROUND = ("specdec", "baseline", "baseline, try 2 after a disturbance", "baseline, try 3 after a disturbance")
GATE = """
    import pytest

    @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests={requests}, max_tokens=24)
    @pytest.mark.spec_slo(tpot_gain=0.1)
    def test_gate(spec_comparison):
        pass
"""


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Container[int]], list[tuple[str, int]]]:
    """Make the client late in the given runs, counted from 0; the runs are listed as they come, with the plan of each."""

    def install(which: Container[int]) -> list[tuple[str, int]]:
        ran: list[tuple[str, int]] = []
        run_once = rounds.run_once

        def disturbed(server: Any, *args: Any, **kwargs: Any) -> ArmRun:
            run = run_once(server, *args, **kwargs)
            late = len(ran) in which
            ran.append((server.arm, kwargs["plan"]))
            return replace(run, client=replace(run.client, p99_loop_lag_s=LATE_S, cpu_share=0.5)) if late else run

        monkeypatch.setattr(rounds, "run_once", disturbed)
        return ran

    return install


def comparison_of(pytester: pytest.Pytester) -> Comparison:
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    return comparison


def test_a_disturbed_run_is_measured_again_and_told(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config()
    pytester.makepyfile(GATE.format(requests=8))
    ran = disturb({3, 4})
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(passed=1)
    order = ["baseline", "specdec", "specdec", "baseline", "baseline", "baseline", "baseline", "specdec"]
    assert [arm for arm, _ in ran] == order  # both are the second half of round 2
    said = [line.partition(" (")[0] for line in result.outlines if "round 2 of 3" in line]
    assert said == [f"specdec: fake: tiny at concurrency 4, round 2 of 3, {who}" for who in SECOND_ROUND]
    comparison = comparison_of(pytester)
    assert comparison.rounds == 3
    assert max(run.client.p99_loop_lag_s for run in comparison.runs) < LATE_S
    told = "measured again: round 2, baseline: the load generator is the bottleneck: its event loop was 99000.0 ms late"
    assert sum(told in note for note in comparison.notes) == 1


def test_what_disturbs_again_and_again_is_an_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config()
    pytester.makepyfile(GATE.format(requests=8))
    ran = disturb({1, 2, 3})
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    assert len(ran) == 4
    result.stdout.fnmatch_lines(["*round 1, specdec: the load generator is the bottleneck*; 3 runs were disturbed*"])


def test_a_measurement_that_was_given_up_wins_nothing_and_is_no_ground_for_advice(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config()
    write_config("other.json")
    pytester.makepyfile(GATE.format(requests=8))
    disturb({10, 11, 12})  # the third round of the second config
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-config=other.json")
    result.assert_outcomes(passed=1, errors=1)
    given_up = "the measurement was given up: round 3, baseline: the load generator is the bottleneck"
    told = " ".join(" ".join(result.outlines).split())
    assert f"other is not ranked: {given_up}" in told
    assert "winner" not in told
    assert f"advice for other, tiny: unsure: {given_up}" in told
    other = read_result(pytester.path / ".specdec" / "results.json").comparisons["other/tiny"]
    assert other.rounds == 2
    assert other.refused.startswith("round 3, baseline: the load generator is the bottleneck")


def test_what_was_given_up_counts_again_once_it_was_measured_to_the_end(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config()
    pytester.makepyfile(GATE.format(requests=8))
    disturb({3, 4, 5})
    result = pytester.runpytest("--specdec-config=fake.json", "--reruns=1")
    assert result.ret == 0
    assert comparison_of(pytester).refused == ""
    assert comparison_of(pytester).rounds > 1


def test_rounds_of_fresh_prompts_take_others_when_they_are_measured_again(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config(speculative_config={"method": "suffix"})
    pytester.makepyfile(GATE.format(requests=6))
    ran = disturb({1})
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(passed=1)
    arms = ["baseline", "specdec", "baseline", "specdec", "specdec", "baseline", "baseline", "specdec"]
    assert ran == list(zip(arms, [0, 0, 1, 1, 2, 2, 3, 3], strict=True))
    asked = [sample.prompt for run in comparison_of(pytester).arm("specdec") for sample in run.samples]
    assert len(set(asked)) == len(asked) == 18


def test_without_prompts_for_another_try_the_first_disturbance_is_the_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], disturb: Callable[..., list[tuple[str, int]]]
) -> None:
    write_config(speculative_config={"method": "suffix"})
    pytester.makepyfile(GATE.format(requests=8))
    disturb({1})
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*round 1, specdec: the load generator is the bottleneck*"])
