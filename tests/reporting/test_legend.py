"""The line that says what short headings mean: those that are there, and no others."""

from __future__ import annotations

import pytest

from pytest_specdec.reporting.legend import legend_lines


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("verdict   test   TPOT gain   AL   faster", ["AL", "faster"]),
        ("  config  TPOT gain  AL    tok/step  tok/s     KV lost  start", ["AL", "tok/step", "KV lost", "start"]),
        ("ERROR     tests/test_code.py::test_code[a]   -      -", ["-"]),
        ("  ngram   74.4 % (67.8 .. 79.6 %)  5.00  -  0.0 %    30 s", ["-"]),
        ("FAIL      test_start[FINAL]    -7.0 % (-21.0 .. 5.4 %)", []),
        ("  winner: ngram: 3.1 .. 4.2 % less time per token than eagle3", []),
    ],
)
def test_what_is_abbreviated_is_told(line: str, names: list[str]) -> None:
    told = " ".join(map(str.strip, legend_lines([line]))).removeprefix("legend: ")
    assert [part.partition(" = ")[0] for part in told.split("; ") if part] == names


def test_it_fits_80_columns() -> None:
    lines = legend_lines(["AL  tok/step  KV lost  -  start", "AL   faster"])
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
