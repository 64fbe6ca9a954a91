"""Sweeps judged: rows at every load, the crossover, and which loads deserve more rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.crossover_verdicts import judge_sweep, shown_place, sweep_of, worth_extending
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.judge import estimate, planned_looks
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement, Verdict
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison


def measured(concurrency: int, tpot_spec_ms: float, **how: float) -> Comparison:
    return build_comparison(
        tpot_spec_ms=tpot_spec_ms,
        requests=4 * concurrency,
        load=LoadSpec(concurrency=concurrency, max_tokens=33),
        noise=how.get("noise", 0.01),
    )


@pytest.fixture(scope="module")
def sweep() -> list[Comparison]:
    """Gains of 30, 10 and -20 %, each well proven."""
    return [measured(2, 7), measured(4, 9), measured(8, 12)]


def judged(sweep: list[Comparison], **slo: object) -> dict[str, Verdict]:
    requirements = [one for name, value in slo.items() for one in REGISTRY[name].parse(value)]
    return {verdict.requirement.label: verdict for verdict in judge_sweep(sweep, requirements)}


def test_an_objective_is_judged_at_every_load(sweep: list[Comparison]) -> None:
    verdicts = judged(sweep, tpot_gain=0.05, min_acceptance_length=1.5)
    assert {label: verdict.outcome for label, verdict in verdicts.items()} == {
        "tpot_gain @ concurrency 2": "ok",
        "tpot_gain @ concurrency 4": "ok",
        "tpot_gain @ concurrency 8": "FAIL",
        "min_acceptance_length @ concurrency 2": "ok",
        "min_acceptance_length @ concurrency 4": "ok",
        "min_acceptance_length @ concurrency 8": "ok",
    }


def test_loads_share_the_permitted_error_as_looks_do(sweep: list[Comparison]) -> None:
    (verdict, *_) = judged(sweep, tpot_gain=0.05).values()
    looks = len(planned_looks(sweep[0].load))
    assert verdict.estimate.level == pytest.approx(1 - 0.05 / (3 * looks))


def test_one_load_is_judged_as_ever(sweep: list[Comparison]) -> None:
    (verdict,) = judged(sweep[:1], tpot_gain=0.05).values()
    assert verdict.requirement.label == "tpot_gain"
    assert verdict.estimate.level == pytest.approx(1 - 0.05 / len(planned_looks(sweep[0].load)))


@pytest.mark.parametrize(("required", "outcome"), [(2, "ok"), (4, "ok"), (6, "unsure"), (8, "FAIL")])
def test_a_crossover_is_met_up_to_the_largest_proven_load_and_missed_from_the_first_loss_on(
    sweep: list[Comparison], required: float, outcome: str
) -> None:
    (verdict,) = judged(sweep, min_crossover_concurrency=required).values()
    assert verdict.outcome == outcome
    assert (verdict.estimate.low, verdict.estimate.high) == (4, 8)
    assert 4 < verdict.estimate.value < 8


def test_a_gain_at_the_highest_load_proves_any_crossover_below_it(sweep: list[Comparison]) -> None:
    (verdict,) = judged(sweep[:2], min_crossover_concurrency=3).values()
    assert verdict.outcome == "ok"
    assert (verdict.estimate.value, verdict.estimate.censored) == (4, "above")


def test_an_unsure_crossover_says_which_load_would_settle_it(sweep: list[Comparison]) -> None:
    (verdict,) = judged(sweep, min_crossover_concurrency=6).values()
    assert "provable now: min_crossover_concurrency >= 4" in verdict.advice
    assert "add 6 to concurrency=[...]" in verdict.advice


def test_the_throughput_gain_has_a_crossover_of_its_own(sweep: list[Comparison]) -> None:
    (verdict,) = judged(sweep, min_crossover_concurrency={"throughput_gain": 2}).values()
    where = sweep_of(sweep).crossover("throughput_gain")
    assert where is not None
    assert (verdict.estimate.value, verdict.estimate.low) == (where.value, where.low)


def test_a_gain_that_is_undefined_at_a_load_is_an_error_that_names_the_load(sweep: list[Comparison]) -> None:
    short = build_comparison(requests=12, load=LoadSpec(concurrency=16, max_tokens=33))
    with pytest.raises(CannotMeasure, match=r"at concurrency 16: .*steady window"):
        judged([*sweep, short], min_crossover_concurrency={"throughput_gain": 2})


def test_a_single_comparison_has_no_crossover(sweep: list[Comparison]) -> None:
    with pytest.raises(CannotMeasure, match="several loads"):
        estimate(sweep[0], "min_crossover_concurrency")


def test_more_rounds_go_to_the_loads_that_are_unsure(sweep: list[Comparison]) -> None:
    unsure = measured(4, 10, noise=0.2)
    comparisons = [sweep[0], unsure, sweep[2]]
    verdicts = judge_sweep(comparisons, [Requirement("tpot_gain", -0.01)])
    assert [verdict.outcome for verdict in verdicts] == ["ok", "unsure", "FAIL"]
    assert worth_extending(verdicts, comparisons) == {1}
    crossing = judge_sweep(comparisons, [Requirement("min_crossover_concurrency", 5)])
    assert worth_extending(crossing, comparisons) == {1, 2}


def test_the_figures_shown_are_those_of_the_load_that_missed(sweep: list[Comparison]) -> None:
    assert shown_place(judge_sweep(sweep, [Requirement("tpot_gain", 0.05)]), sweep) == 2
    assert shown_place(judge_sweep(sweep, [Requirement("tpot_gain", 0.2)]), sweep) == 1
    assert shown_place(judge_sweep(sweep, [Requirement("tpot_gain", -0.5)]), sweep) == 0
