"""Lines that fit a width: what breaks, what never does, tables that fold."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.reporting.layout import fitted, grid, printable, shell_lines

WORDS = st.lists(st.text("abc-/%", min_size=1, max_size=30), min_size=1, max_size=30)
GAPS = st.sampled_from([" ", "  ", "   "])


@given(WORDS, GAPS, st.integers(0, 30), st.integers(10, 90))
def test_no_word_is_lost_or_broken_and_only_a_word_is_wider(
    words: list[str], gap: str, indent: int, width: int
) -> None:
    pieces = fitted([" " * indent + gap.join(words)], width)
    assert " ".join(pieces).split() == words
    assert all(len(piece) <= width or len(piece.split()) == 1 for piece in pieces)


def test_a_line_breaks_between_its_columns_first() -> None:
    line = "  specdec    TPOT 10.12 ms   TTFT p95 240 ms    1.17x faster per token"
    assert fitted([line], 60) == ["  specdec    TPOT 10.12 ms   TTFT p95 240 ms", "      1.17x faster per token"]


def test_a_line_that_fits_stays_as_it_is() -> None:
    assert fitted(["a   b", "", "  c"], 5) == ["a   b", "", "  c"]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_broken_command_is_the_same_command(width: int) -> None:
    command = shlex.join(["pytest", "tests/test one.py::test_chat[eagle3]", "--specdec-config=a b.json", "-v", "-x"])
    lines = shell_lines(command, width)
    printed = subprocess.run(
        ["sh", "-c", "printf '%s\\n' " + "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines() == shlex.split(command)
    assert all(len(line) <= width or len(shlex.split(line.removesuffix(" \\"))) == 1 for line in lines)


ROWS = [
    ("verdict", "test", "gain", "AL"),
    ("FAIL", "test_chat", "21.4 %", "1.31"),
    ("ok", "test_code", "4.0 %", "2.10"),
]


def test_a_grid_that_fits_has_a_line_for_each_row() -> None:
    assert grid(ROWS, 40, fold=2) == [
        "verdict   test        gain     AL",
        "FAIL      test_chat   21.4 %   1.31",
        "ok        test_code   4.0 %    2.10",
    ]


def test_a_grid_loses_its_gaps_before_it_folds() -> None:
    assert grid(ROWS, 32, fold=2)[1] == "FAIL     test_chat  21.4 %  1.31"
    assert grid(ROWS, 31, fold=2) == [
        "verdict   test",
        "    gain     AL",
        "FAIL      test_chat",
        "    21.4 %   1.31",
        "ok        test_code",
        "    4.0 %    2.10",
    ]


def test_numbers_may_stand_to_the_right() -> None:
    assert grid([("load", "gain"), ("8", "4.0 %")], 80, fold=1, right=True) == ["load    gain", "   8   4.0 %"]


def test_what_would_move_the_cursor_is_spelled_out() -> None:
    assert printable("\x1b[31mred\x1b[0m\rback\x07 \u0085\x7f") == "\\x1b[31mred\\x1b[0m\\x0dback\\x07 \\x85\\x7f"
    assert printable("line\n\tnext ü…") == "line\n\tnext ü…"
