"""A schedule is worth using only where no single K does better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.schedule_worth import better_fixed
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison


def at(config_id: str, k: int, **tpot_ms: float) -> list[Comparison]:
    """A config at loads: ``low`` and ``high`` are the speculating side's TPOT where the baseline has 10 ms."""
    loads = {"low": 1, "high": 32}
    return [
        replace(
            build_comparison(
                tpot_spec_ms=ms, noise=0.01, k=k, acceptance=(0.5,) * k, load=LoadSpec(concurrency=loads[name])
            ),
            config_id=config_id,
        )
        for name, ms in tpot_ms.items()
    ]


def test_a_k_that_is_faster_at_one_load_and_slower_at_none_is_better() -> None:
    text = better_fixed(at("dynamic", 3, low=9, high=9), [*at("k1", 1, low=8, high=9), *at("k3", 3, low=5, high=9)])
    assert text.startswith("K = 3 without a schedule takes less time per token, 44.")
    assert text.endswith("on chat at concurrency 1, and more nowhere")


def test_a_schedule_that_follows_the_best_k_of_each_load_is_beaten_by_none() -> None:
    fixed = [*at("k1", 1, low=8, high=9), *at("k3", 3, low=5, high=14)]
    assert better_fixed(at("dynamic", 3, low=5, high=9), fixed) == ""


def test_only_the_same_requests_are_compared() -> None:
    other = [
        replace(one, workload=replace(one.workload, name="code", sha256="0" * 64)) for one in at("k3", 3, low=5, high=5)
    ]
    assert better_fixed(at("dynamic", 3, low=9, high=9), other) == ""


def test_rounds_that_were_given_up_prove_nothing() -> None:
    given_up = [replace(one, extra={"refused": "the client was late"}) for one in at("k3", 3, low=5, high=5)]
    assert better_fixed(at("dynamic", 3, low=9, high=9), given_up) == ""


def test_a_k_that_loses_elsewhere_is_a_matter_of_taste() -> None:
    assert better_fixed(at("dynamic", 3, low=6, high=9), at("k3", 3, low=5, high=14)) == ""


@pytest.mark.parametrize("measured", [[], at("dynamic", 3, high=9)])
def test_what_was_measured_at_no_common_load_says_nothing(measured: list[Comparison]) -> None:
    assert better_fixed(measured, at("k3", 3, low=1)) == ""
