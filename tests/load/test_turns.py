"""Conversations become prompts: the first turn, the last, or every one with the answers that were recorded."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.load.prompt_reader import BadRecordError, Conversation, Prompt
from pytest_specdec.load.turns import TurnTaker

if TYPE_CHECKING:
    from pytest_specdec.core.workload_options import MultiTurn


def said(roles: str) -> tuple[dict[str, Any], ...]:
    """``s``, ``u``, ``a``, ``t`` for system, user, assistant, tool; the content tells the place."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return tuple({"role": names[role], "content": f"{role}{place}"} for place, role in enumerate(roles))


def taken(roles: str, how: MultiTurn | None = None, *, turns: Any = "last", answered: bool = True) -> list[str]:
    found = Conversation(messages=said(roles), turns=turns, answered=answered)
    return [shape(prompt) for prompt in TurnTaker(how).prompts(found)]


def shape(prompt: Prompt) -> str:
    return "".join(message["role"][0] for message in prompt.messages or ())


@pytest.mark.parametrize(
    ("roles", "first", "last", "recorded"),
    [
        ("u", ["u"], ["u"], ["u"]),
        ("ua", ["u"], ["u"], ["u"]),
        ("uaua", ["u"], ["uau"], ["u", "uau"]),
        ("suauau", ["su"], ["suauau"], ["su", "suau", "suauau"]),
        ("uuau", ["uu"], ["uuau"], ["uu", "uuau"]),
        ("uatau", ["u"], ["uatau"], ["u", "uat", "uatau"]),
        ("saua", ["sau"], ["sau"], ["sau"]),
    ],
)
def test_which_turns_are_sent(roles: str, first: list[str], last: list[str], recorded: list[str]) -> None:
    assert taken(roles, "first") == first
    assert taken(roles, "last") == last
    assert taken(roles, "recorded") == recorded


def test_without_a_word_the_format_decides() -> None:
    assert taken("uau", turns="first") == ["u"]
    assert taken("uau", turns="last") == ["uau"]


def test_a_greeting_is_cut_where_conversations_are_logs() -> None:
    assert taken("saua", turns="first") == ["su"]


@pytest.mark.parametrize("how", ["first", "last", "recorded", None])
def test_turns_without_recorded_answers_are_not_made_up(how: MultiTurn | None) -> None:
    assert taken("uuu", how, turns="first", answered=False) == ["u"]


@pytest.mark.parametrize("roles", ["a", "aa", "sa"])
def test_nothing_to_answer_is_refused(roles: str) -> None:
    with pytest.raises(BadRecordError, match="nothing to answer"):
        taken(roles)


def test_turns_of_one_conversation_are_told_together() -> None:
    taker = TurnTaker("recorded")
    prompts = [prompt for roles in ("uaua", "u", "uau") for prompt in taker.prompts(Conversation(messages=said(roles)))]
    assert [(prompt.conversation, prompt.turn) for prompt in prompts] == [(0, 0), (0, 1), (None, 0), (2, 0), (2, 1)]
    assert (
        "4 prompts are turns of 2 conversations; intervals count a conversation as one piece of content"
        in taker.notes()
    )


def own(roles: str, *, answered: bool = True) -> list[Prompt]:
    found = Conversation(messages=said(roles), turns="first", answered=answered)
    return TurnTaker("own").prompts(found)


@pytest.mark.parametrize(
    ("roles", "shapes", "answers"),
    [
        ("uauau", ["u", "uau", "uauau"], [(), (1,), (1, 3)]),
        ("suaua", ["su", "suau"], [(), (2,)]),
        ("uaatu", ["u", "uatu"], [(), (1,)]),
        ("u", ["u"], [()]),
    ],
)
def test_own_answers_take_the_place_of_the_recorded_ones(
    roles: str, shapes: list[str], answers: list[tuple[int, ...]]
) -> None:
    prompts = own(roles)
    assert [shape(prompt) for prompt in prompts] == shapes
    assert [prompt.answers for prompt in prompts] == answers


def test_turns_without_recorded_answers_can_be_asked_with_own_ones() -> None:
    prompts = own("uuu", answered=False)
    assert [shape(prompt) for prompt in prompts] == ["u", "uau", "uauau"]
    assert [prompt.turn for prompt in prompts] == [0, 1, 2]


def test_a_turn_continues_what_the_server_said() -> None:
    _, _, last = own("uauau")
    messages = last.continued(["one", "two"]).messages or ()
    assert [message["content"] for message in messages] == ["u0", "one", "u2", "two", "u4"]
    assert messages[1] == {"role": "assistant", "content": "one"}


@settings(deadline=None)
@given(st.text("sua", min_size=1, max_size=12))
def test_own_turns_hold_one_answer_for_each_turn_before(roles: str) -> None:
    try:
        prompts = own(roles)
    except BadRecordError:
        return
    for prompt in prompts:
        assert len(prompt.answers) == prompt.turn
        assert all((prompt.messages or ())[place]["role"] == "assistant" for place in prompt.answers)
        assert shape(prompt)[-1] != "a"


def test_what_is_left_out_is_counted() -> None:
    taker = TurnTaker("first")
    for roles in ("uauau", "uau", "u"):
        taker.prompts(Conversation(messages=said(roles)))
    assert taker.notes() == ("2 conversations with 3 later turns that are not sent; `multi_turn: recorded` sends them",)


def test_plain_texts_pass() -> None:
    (prompt,) = TurnTaker("recorded").prompts(Conversation(prompt="a", category="c", max_tokens=3))
    assert prompt == Prompt(0, prompt="a", category="c", max_tokens=3)


@given(st.text("sua", min_size=1, max_size=12))
def test_recorded_turns_grow_by_an_answer_and_what_follows_it(roles: str) -> None:
    messages = said(roles)
    try:
        prompts = TurnTaker("recorded").prompts(Conversation(messages=messages))
    except BadRecordError:
        assert "u" not in roles
        return
    for prompt in prompts:
        assert prompt.messages == messages[: len(prompt.messages or ())]
        assert shape(prompt)[-1] != "a"
    for before, after in itertools.pairwise(prompts):
        assert shape(after)[len(shape(before))] == "a"
