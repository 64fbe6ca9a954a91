"""Which servers start together, and how vLLM's sizes are read."""

from __future__ import annotations

import pytest

from pytest_specdec.core.start_ahead import chosen, gib_of, need_gib


@pytest.mark.parametrize(
    ("size", "gib"),
    [
        ("21474836480", 20.0),
        ("24G", 24.0),
        (" 512M ", 0.5),
        ("1T", 1024.0),
        ("25.5g", 25.5e9 / 1024**3),
        ("3k", 3000 / 1024**3),
        ("0", 0.0),
        ("", None),
        ("auto", None),
        ("-1", None),
        ("24 GiB", None),
    ],
)
def test_sizes_are_read_as_vllm_reads_them(size: str, gib: float | None) -> None:
    assert gib_of(size) == gib


def test_a_server_needs_weights_cache_and_a_reserve() -> None:
    assert need_gib(15.0, 20.0) == 37.0


def test_what_fits_beside_the_first_ones_starts_with_them() -> None:
    first = {"baseline": 30.0, "specdec a": 32.0}
    b, c = {"baseline": 30.0, "specdec b": 32.0}, {"baseline": 30.0, "specdec c": 31.0}
    assert chosen(first, [b, c], 140.0) == {"baseline", "specdec a", "specdec b", "specdec c"}  # 125 of 126
    assert chosen(first, [b, c], 138.0) == {"baseline", "specdec a", "specdec b"}
    assert chosen(first, [], 140.0) == {*first}


def test_a_server_that_does_not_fit_leaves_its_room_to_a_smaller_one() -> None:
    assert chosen({"a": 50.0}, [{"large": 60.0}, {"small": 30.0}], 100.0) == {"a", "small"}


def test_the_first_ones_start_even_where_they_take_more() -> None:
    assert chosen({"a": 99.0}, [{"b": 1.0}], 100.0) == {"a"}
