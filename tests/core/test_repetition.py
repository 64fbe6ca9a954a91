"""How much of an answer a lookup would find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.repetition import lookup_share


def test_an_answer_that_copies_its_prompt_can_be_looked_up() -> None:
    text = "def add(a, b): return a + b"
    share = lookup_share([(f"Repeat this. {text}", text)])
    # All but the first two words, behind which nothing like it has stood yet.
    assert share == pytest.approx(1 - 2 / 13, abs=0.08)


def test_new_text_cannot() -> None:
    assert lookup_share([("What is a fox?", "Some small animal with red fur that hunts at night")]) == 0.0


def test_an_answer_that_repeats_itself_can() -> None:
    assert lookup_share([("Count.", "one two three " * 10)]) == pytest.approx(25 / 30, abs=0.05)


def test_the_latest_place_counts() -> None:
    # Behind "a b" stood c first and then d: a lookup takes d.
    assert lookup_share([("a b c a b d", "a b d")]) == pytest.approx(1 / 3)
    assert lookup_share([("a b c a b d", "a b c")]) == 0.0


def test_nothing_answered_is_no_share() -> None:
    assert lookup_share([("Why?", " ")]) is None
    assert lookup_share([]) is None


@given(st.lists(st.tuples(st.text(), st.text())))
def test_it_is_a_share(pairs: list[tuple[str, str]]) -> None:
    share = lookup_share(pairs)
    assert share is None or 0 <= share <= 1
