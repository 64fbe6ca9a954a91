"""Millions of values are sorted and counted beside what is held of them already; copies of them decide how much memory judging takes."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.core.tables import Values

if TYPE_CHECKING:
    from collections.abc import Callable

REQUESTS, EACH = 100, 1000


@pytest.fixture
def values() -> Values:
    of_request = np.arange(REQUESTS)
    return Values(
        value=np.random.default_rng(1).random(REQUESTS * EACH),
        request=np.repeat(of_request, EACH).astype(np.int32),
        round=of_request // 50,
        prompt=of_request % 50,
        unit=of_request % 50,
        excluded=0,
    )


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_all_values_are_sorted_in_one_copy(values: Values) -> None:
    held = values.by_round
    assert [len(one) for one in held] == [50 * EACH] * 2
    assert peak_bytes(lambda: values.ascending) < 1.5 * values.value.nbytes
    assert values.ascending.tolist() == sorted(values.value.tolist())


def test_chosen_values_are_counted_without_a_number_for_each_of_all(values: Values) -> None:
    chosen = values.value <= 0.25
    assert peak_bytes(lambda: values.where(chosen)) < values.value.nbytes
    counted = values.where(chosen)
    assert counted.shape == (2, 50)
    assert counted[1, 3] == np.count_nonzero(values.value[53 * EACH : 54 * EACH] <= 0.25)
