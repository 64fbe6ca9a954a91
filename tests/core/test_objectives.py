"""The registry of objectives and what marks may say."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement

SCALARS = [
    name
    for name, objective in REGISTRY.items()
    if not objective.takes_mapping and name not in ("lossless", "min_crossover_concurrency", "max_regression")
]
TIME_GAINS = ["tpot_gain", "ttft_gain", "e2el_gain"]
SHARES = ["min_acceptance_rate", "min_draft_coverage"]
LENGTHS = ["min_acceptance_length", "min_tokens_per_step"]


def complaint(name: str, value: object) -> str:
    with pytest.raises(MarkError) as raised:
        REGISTRY[name].parse(value)
    return str(raised.value)


def test_the_documented_objectives_are_there() -> None:
    family = {
        f"{quantity}_{statistic}_ms"
        for quantity in ("ttft", "tpot", "itl", "e2el", "chunk_gap")
        for statistic in ("mean", "p50", "p90", "p95", "p99")
    }
    others = {
        "tpot_gain",
        "ttft_gain",
        "e2el_gain",
        "throughput_gain",
        "goodput_gain",
        "min_acceptance_length",
        "min_acceptance_rate",
        "min_tokens_per_step",
        "min_draft_coverage",
        "min_acceptance_at",
        "min_class_acceptance_length",
        "min_class_tokens_per_step",
        "class_tpot_gain",
        "min_throughput_tok_s",
        "min_goodput",
        "max_failure_share",
        "max_startup_s",
        "max_kv_capacity_loss",
        "max_gpu_memory_gib",
        "min_crossover_concurrency",
        "min_crossover_rate",
        "max_regression",
        "lossless",
        "min_output_match",
        "max_loop_share",
    }
    assert set(REGISTRY) == family | others


def test_the_registry_needs_no_heavy_import() -> None:
    code = (
        "import sys, pytest_specdec.core.objectives as o; o.REGISTRY['tpot_gain'].parse(0.3);"
        "print([name for name in ('numpy', 'scipy', 'pydantic', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", REGISTRY)
def test_every_entry_leads_to_an_estimator(name: str) -> None:
    estimator = REGISTRY[name].estimator
    assert isinstance(estimator, str)
    module, function = estimator.split(":")
    assert callable(getattr(importlib.import_module(f"pytest_specdec.core.{module}"), function))


@pytest.mark.parametrize("name", REGISTRY)
def test_limits_and_gains_point_the_right_way(name: str) -> None:
    lower_is_better = name.endswith("_ms") or name.startswith("max_")
    assert REGISTRY[name].direction == ("lower" if lower_is_better else "higher")


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "not a boolean"),
        ("0.3", "not a string"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        ([0.3], "not list"),
        ({"0": 1}, "not dict"),
    ],
)
def test_what_is_no_number_is_refused_by_name(name: str, value: object, words: str) -> None:
    text = complaint(name, value)
    assert text.startswith(name)
    assert words in text


@pytest.mark.parametrize("name", TIME_GAINS)
def test_a_gain_in_percent_is_refused_with_the_fraction_that_was_meant(name: str) -> None:
    assert "did you mean 0.3?" in complaint(name, 30)


def test_a_speed_up_factor_is_refused_with_the_gain_that_was_meant() -> None:
    assert "did you mean 0.23, which is 1.3 times faster?" in complaint("tpot_gain", 1.3)


def test_all_of_the_time_cannot_be_saved() -> None:
    assert "100%" in complaint("tpot_gain", 1)


def test_a_loss_in_percent_is_refused() -> None:
    assert "did you mean -0.05?" in complaint("tpot_gain", -5)


@pytest.mark.parametrize("name", [*TIME_GAINS, "throughput_gain"])
def test_a_loss_may_be_tolerated(name: str) -> None:
    assert REGISTRY[name].parse(-0.05) == (Requirement(name, -0.05),)


def test_throughput_may_more_than_double() -> None:
    assert REGISTRY["throughput_gain"].parse(1.5) == (Requirement("throughput_gain", 1.5),)


def test_a_throughput_gain_in_percent_is_refused() -> None:
    assert "did you mean 0.2?" in complaint("throughput_gain", 20)


def test_a_throughput_gain_that_is_always_met_is_refused() -> None:
    assert "always met" in complaint("throughput_gain", -1)


@pytest.mark.parametrize("name", SHARES)
def test_a_share_in_percent_is_refused(name: str) -> None:
    assert "did you mean 0.7?" in complaint(name, 70)


@pytest.mark.parametrize("name", SHARES)
def test_a_negative_share_is_refused(name: str) -> None:
    assert "between 0 and 1" in complaint(name, -0.1)


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_below_one_is_refused(name: str) -> None:
    assert "min_acceptance_rate" in complaint(name, 0.7)


@pytest.mark.parametrize("name", ["tpot_p95_ms", "min_throughput_tok_s", "max_startup_s"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_above_zero(name: str, value: float) -> None:
    assert "above 0" in complaint(name, value)


@settings(deadline=None)
@given(st.floats(-0.99, 0.99))
def test_every_gain_below_one_is_kept_as_it_is(value: float) -> None:
    assert REGISTRY["tpot_gain"].parse(value) == (Requirement("tpot_gain", value),)


def test_positions_become_one_requirement_each() -> None:
    parsed = REGISTRY["min_acceptance_at"].parse({1: 0.5, 0: 0.7})
    assert [one.label for one in parsed] == ["min_acceptance_at[0]", "min_acceptance_at[1]"]
    assert [one.required for one in parsed] == [0.7, 0.5]


@pytest.mark.parametrize("value", [0.7, {}, [0.7], None])
def test_positions_need_a_mapping(value: object) -> None:
    assert "{0: 0.7, 1: 0.5}" in complaint("min_acceptance_at", value)


@pytest.mark.parametrize("position", [-1, "0", 0.0, True])
def test_positions_are_whole_numbers_from_zero(position: object) -> None:
    assert "count from 0" in complaint("min_acceptance_at", {position: 0.5})


def test_a_position_in_percent_is_refused_by_its_place() -> None:
    assert complaint("min_acceptance_at", {0: 70}).startswith("min_acceptance_at[0]=70")


def test_joint_shares_that_rise_are_taken_for_conditional_ones() -> None:
    assert "conditional" in complaint("min_acceptance_at", {0: 0.5, 1: 0.7})


def test_goodput_keeps_its_limits() -> None:
    (requirement,) = REGISTRY["min_goodput"].parse({"share": 0.99, "ttft_ms": 500, "tpot_ms": 20})
    assert requirement == Requirement("min_goodput", 0.99, options=(("ttft_ms", 500.0), ("tpot_ms", 20.0)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.99, "needs a share and limits"),
        ({"ttft_ms": 500}, "'share' is missing"),
        ({"share": 0.99}, "no limit given"),
        ({"share": 99, "ttft_ms": 500}, "did you mean 0.99?"),
        ({"share": 0.99, "ttft": 500}, "did you mean 'ttft_ms'?"),
        ({"share": 0.99, "ttft_ms": "500"}, "not a string"),
    ],
)
def test_goodput_names_what_is_wrong(value: object, words: str) -> None:
    assert words in complaint("min_goodput", value)


def test_a_goodput_gain_has_limits_too_and_may_be_negative() -> None:
    (requirement,) = REGISTRY["goodput_gain"].parse({"gain": -0.02, "tpot_ms": 20})
    assert requirement == Requirement("goodput_gain", -0.02, options=(("tpot_ms", 20.0),))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.1, "needs a gain and limits, such as {'gain': 0.1"),
        ({"share": 0.1, "tpot_ms": 20}, "unknown key 'share'"),
        ({"gain": 10, "tpot_ms": 20}, "did you mean 0.1?"),
        ({"gain": 0.1}, "no limit given"),
    ],
)
def test_a_goodput_gain_names_what_is_wrong(value: object, words: str) -> None:
    assert words in complaint("goodput_gain", value)


def test_e2el_gain_is_refused_before_measuring_without_equal_lengths() -> None:
    with pytest.raises(CannotMeasure, match="ignore_eos"):
        REGISTRY["e2el_gain"].precheck(LoadSpec())
    REGISTRY["e2el_gain"].precheck(LoadSpec(ignore_eos=True))


@pytest.mark.parametrize("name", ["throughput_gain", "min_throughput_tok_s"])
def test_throughput_is_refused_before_measuring_when_the_loop_only_fills_and_drains(name: str) -> None:
    with pytest.raises(CannotMeasure, match="at least 16"):
        REGISTRY[name].precheck(LoadSpec(concurrency=8, num_requests=15))
    REGISTRY[name].precheck(LoadSpec(concurrency=8, num_requests=16))


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "e2el_gain" and "crossover" not in name])
def test_the_default_load_can_measure_everything_else(name: str) -> None:
    REGISTRY[name].precheck(LoadSpec())


def test_lossless_is_the_one_objective_that_is_true() -> None:
    assert REGISTRY["lossless"].parse(value=True) == (Requirement("lossless", 1.0),)
    assert REGISTRY["lossless"].parse({"tie_margin": 0.3}) == (
        Requirement("lossless", 1.0, options=(("tie_margin", 0.3),)),
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (False, "None removes an inherited one"),
        (1, "needs True"),
        ("yes", "needs True"),
        ({}, "needs True"),
        ({"tie_margn": 1}, "did you mean 'tie_margin'?"),
        ({"tie_margin": 0}, "above 0"),
        ({"tie_margin": True}, "not a boolean"),
    ],
)
def test_lossless_is_true_or_states_a_margin(value: object, words: str) -> None:
    assert words in complaint("lossless", value)


def test_a_match_of_every_answer_is_refused() -> None:
    assert "lossless=True" in complaint("min_output_match", 1)


def test_sampled_answers_need_not_be_equal() -> None:
    with pytest.raises(CannotMeasure, match=r"min_output_match.*temperature 0.7"):
        REGISTRY["min_output_match"].precheck(LoadSpec(temperature=0.7))
    REGISTRY["min_output_match"].precheck(LoadSpec())


def test_lossless_can_be_judged_at_any_temperature() -> None:
    for temperature in (0.0, 0.7):
        REGISTRY["lossless"].precheck(LoadSpec(temperature=temperature))
