"""Which answers are held against which, and where they part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.output_pairs import Answers, compared, first_difference, fork_of, told
from pytest_specdec.core.samples import RequestSample

if TYPE_CHECKING:
    from pytest_specdec.core.output_pairs import Given
    from pytest_specdec.core.samples import Arm

tokens = st.lists(st.integers(0, 3), max_size=8).map(tuple)


def answers(
    arm: Arm, given: Given, number: int, *said: tuple[int, ...], prompt: int = 0, error: str | None = None
) -> Answers:
    samples = (
        RequestSample(index, prompt + index, None, None, 0.0, completion_tokens=len(one), token_ids=one, error=error)
        for index, one in enumerate(said)
    )
    return Answers(arm, given, number, tuple(samples))


@given(tokens, tokens)
def test_the_first_difference_is_where_both_were_equal_until_then(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    at = first_difference(one, other)
    if at is None:
        assert one == other
    else:
        assert one[:at] == other[:at]
        assert one[at : at + 1] != other[at : at + 1]


def test_every_comparison_that_tells_something_is_made_once() -> None:
    said = (1, 2)
    every = [
        *(answers(arm, "load", number, said) for arm in ("baseline", "specdec") for number in (0, 1)),
        *(answers(arm, "alone", 0, said) for arm in ("baseline", "specdec")),
    ]
    found = [(one.pair.compared, one.pair.condition, one.pair.round) for one in compared(every)]
    assert sorted(found) == [
        ("baseline", "composition", 0),
        ("baseline", "composition", 1),
        ("baseline", "load", 0),
        ("speculation", "alone", 0),
        ("speculation", "load", 0),
        ("speculation", "load", 1),
    ]


def test_where_the_load_is_one_at_a_time_the_other_pass_is_the_floor() -> None:
    every = [
        answers("baseline", "load", 0, (1,)),
        answers("specdec", "load", 0, (1,)),
        answers("baseline", "other", 0, (2,)),
    ]
    found = {(one.pair.compared, one.pair.condition): one.pair.equal for one in compared(every)}
    assert found == {("speculation", "load"): True, ("baseline", "composition"): False}


def test_answers_to_other_prompts_are_not_compared() -> None:
    every = [answers("baseline", "load", 0, (1,)), answers("baseline", "load", 1, (2,), prompt=1)]
    assert list(compared(every)) == []


def test_failed_requests_are_not_compared() -> None:
    every = [answers("baseline", "load", 0, (1,)), answers("specdec", "load", 0, (), error="HTTP 500")]
    assert list(compared(every)) == []


def test_a_fork_is_what_both_said_and_the_two_tokens() -> None:
    (one,) = compared([answers("baseline", "load", 0, (7, 8, 9)), answers("specdec", "load", 0, (7, 5, 9))])
    fork = fork_of(one)
    assert fork is not None
    assert (fork.common, fork.tokens) == ((7,), (8, 5))
    assert told(one, lambda _: ((0.0, 3.0), False, "")).pair.margin_nats == 3.0


def test_an_answer_that_is_the_beginning_of_the_other_has_no_fork() -> None:
    (one,) = compared([answers("baseline", "load", 0, (7, 8, 9)), answers("specdec", "load", 0, (7, 8))])
    assert fork_of(one) is None
    assert one.pair.cut
