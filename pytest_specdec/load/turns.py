"""From conversations to prompts: which turns are sent, and with which answers before them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from pytest_specdec.load.prompt_reader import BadRecordError, Conversation, Prompt, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.workload_options import MultiTurn


class TurnTaker:
    """Takes the prompts out of conversations, and counts what it leaves out."""

    def __init__(self, multi_turn: MultiTurn | None) -> None:
        """``multi_turn``: ``first`` and ``last`` give one prompt each, ``recorded`` and ``own`` one for every turn of the user."""
        self._multi_turn = multi_turn
        self._conversations = 0
        self._cut_answers = 0
        self._cut_greetings = 0
        self._cut_short = 0
        self._turns_left = 0
        self._unanswered = 0
        self._unanswered_turns = 0
        self._several = 0
        self._prompts = 0

    def prompts(self, found: Conversation) -> list[Prompt]:
        """At least one; their index is set by the caller.

        Raises:
            BadRecordError: There is nothing to answer.
        """
        if found.messages is None:
            alone = Prompt(
                0, prompt=found.prompt, category=found.category, max_tokens=found.max_tokens, asked=found.asked
            )
            return [alone]
        messages, greeted = _without_greeting(found.messages) if found.turns == "first" else (found.messages, False)
        if self._multi_turn == "own" and not found.answered:
            messages = _with_answers_between(messages)
        ends = _ends_of_turns(messages, answered=found.answered or self._multi_turn == "own")
        if not ends:
            raise BadRecordError("nothing to answer: no message but the assistant's")
        if self._multi_turn == "own" and found.asked.get("tools") and len(ends) > 1:
            raise BadRecordError(
                "'tools' in a conversation that goes on: the server's own answer may be a call, which nobody would answer; "
                "send it with `multi_turn: recorded`"
            )
        number = self._conversations
        self._conversations += 1
        self._cut_greetings += greeted
        self._cut_answers += messages[-1]["role"] == "assistant"
        taken = self._taken(found, ends)
        if self._multi_turn == "own":
            messages, ends = _one_answer_each(messages, ends)
        return [
            Prompt(
                0,
                messages=messages[: ends[turn]],
                category=found.category,
                max_tokens=found.max_tokens,
                conversation=number if len(taken) > 1 else None,
                turn=turn if len(taken) > 1 else 0,
                answers=tuple(ends[:turn]) if self._multi_turn == "own" else (),
                asked=found.asked,
            )
            for turn in taken
        ]

    def notes(self) -> tuple[str, ...]:
        """What was cut or left out, and how many prompts share a conversation."""
        notes = []
        if self._cut_answers:
            notes.append(
                f"{counted(self._cut_answers, 'record')} ended with the assistant's answer, which was cut: it is what is asked for"
            )
        if self._cut_greetings:
            notes.append(f"{counted(self._cut_greetings, 'conversation')} began with the assistant, and that was cut")
        if self._turns_left:
            notes.append(
                f"{counted(self._cut_short, 'conversation')} with {counted(self._turns_left, 'later turn')} that are not sent; "
                "`multi_turn: recorded` sends them"
            )
        if self._unanswered:
            notes.append(
                f"{counted(self._unanswered, 'record')} with {counted(self._unanswered_turns, 'later turn')} that cannot be sent: "
                "no answers are recorded that they could follow"
            )
        if self._several:
            notes.append(
                f"{self._prompts} prompts are turns of {counted(self._several, 'conversation')}; "
                "intervals count a conversation as one piece of content"
            )
        if self._multi_turn == "own":
            notes.append(
                "from the second turn of a conversation on, each server continues with its own answers: prompts may differ between the "
                "two, so TTFT may too; TPOT and acceptance are per token and step"
            )
        return tuple(notes)

    def _taken(self, found: Conversation, ends: Sequence[int]) -> list[int]:
        if not found.answered and self._multi_turn != "own":
            later = len(found.messages or ()) - 1
            self._unanswered += later > 0
            self._unanswered_turns += later
            return [0]
        how = self._multi_turn or found.turns
        if how in ("recorded", "own"):
            if len(ends) > 1:
                self._several += 1
                self._prompts += len(ends)
            return list(range(len(ends)))
        if how == "last":
            return [len(ends) - 1]
        self._cut_short += len(ends) > 1
        self._turns_left += len(ends) - 1
        return [0]


def _without_greeting(messages: tuple[dict[str, Any], ...]) -> tuple[tuple[dict[str, Any], ...], bool]:
    """Without what the assistant said before anybody asked; many chat templates refuse it."""
    start = 0
    while start < len(messages) and messages[start]["role"] == "system":
        start += 1
    end = start
    while end < len(messages) and messages[end]["role"] == "assistant":
        end += 1
    return (*messages[:start], *messages[end:]), end > start


def _with_answers_between(messages: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """What somebody says one after the other, with a place for an answer after each."""
    said: list[dict[str, Any]] = []
    for message in messages:
        if said and said[-1]["role"] != "system":
            said.append({"role": "assistant", "content": ""})
        said.append(message)
    return tuple(said)


def _one_answer_each(
    messages: Sequence[dict[str, Any]], ends: Sequence[int]
) -> tuple[tuple[dict[str, Any], ...], list[int]]:
    """The same with a single message of the assistant after each turn, and where the turns end then.

    A greeting before the first turn stays as it is.
    """
    kept: list[dict[str, Any]] = list(messages[: ends[0]])
    own_ends = [len(kept)]
    for start, end in itertools.pairwise(ends):
        answer, *others = messages[start:end]
        kept.append(answer)
        kept += [message for message in others if message["role"] != "assistant"]
        own_ends.append(len(kept))
    return tuple(kept), own_ends


def _ends_of_turns(messages: Sequence[dict[str, Any]], *, answered: bool) -> list[int]:
    """Up to where messages go when the assistant is to speak: behind a run of others' messages, system alone excepted."""
    if not answered:
        return [1]
    ends = []
    for place, message in enumerate(messages):
        last = place + 1 == len(messages)
        if message["role"] == "assistant" or not (last or messages[place + 1]["role"] == "assistant"):
            continue
        if last or any(before["role"] != "system" for before in messages[: place + 1]):
            ends.append(place + 1)
    return ends
