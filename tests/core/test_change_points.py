"""Changes of level in a series: found where there is one, and seldom where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_specdec.core.change_points import FEWEST, LEVEL, last_change, usual_step


def test_a_step_is_found_where_it_is() -> None:
    found = last_change([7.0, 7.1, 6.9, 7.05, 6.95, 7.02, 7.8, 7.9, 7.75, 7.85, 7.7, 7.82])
    assert found is not None
    assert found.at == 6
    assert found.before == pytest.approx(7.01)
    assert found.after == pytest.approx(7.81)
    assert found.p_value < LEVEL


def test_of_two_steps_the_later_one_is_told() -> None:
    noise = 0.05 * np.random.default_rng(5).standard_normal(36)
    levels = np.repeat([1.0, 2.0, 3.0], 12)
    found = last_change((levels + noise).tolist())
    assert found is not None
    assert found.at == 24
    assert found.before == pytest.approx(2.0, abs=0.05)


def test_a_single_outlier_is_no_step() -> None:
    values = [7.0, 7.1, 6.9, 7.05, 6.95, 7.02, 30.0, 7.03, 6.97, 7.04, 6.98, 7.01]
    assert last_change(values) is None


def test_too_few_runs_say_nothing_however_clear_they_look() -> None:
    step = [1.0] * (FEWEST // 2) + [9.0] * (FEWEST // 2)
    assert last_change(step[1:]) is None
    assert last_change(step) is not None


def test_noise_alone_is_seldom_taken_for_a_step() -> None:
    rng = np.random.default_rng(11)
    found = sum(last_change(rng.standard_normal(14).tolist()) is not None for _ in range(200))
    assert found <= 6  # 2 expected


def test_equal_runs_have_no_step() -> None:
    assert last_change([2.0] * 20) is None


def test_usual_step_is_not_moved_by_one_large_one() -> None:
    assert usual_step([1.0, 1.01, 1.0, 1.01, 2.0, 2.02]) == pytest.approx(0.01, rel=0.02)
    assert usual_step([1.0, 2.0]) is None
