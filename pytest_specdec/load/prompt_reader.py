"""What is read from a workload's file: rows, conversations in them, prompts out of these, and what cannot be used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Prompt:
    """One request of a workload. Exactly one of ``prompt`` and ``messages`` is set."""

    index: int
    """Place among the workload's prompts, from 0."""
    prompt: str | None = None
    """Text for ``/v1/completions``."""
    messages: tuple[dict[str, Any], ...] | None = None
    """A chat for ``/v1/chat/completions``; ends before the answer."""
    category: str | None = None
    max_tokens: int | None = None
    conversation: int | None = None
    """Which conversation of the file this is a turn of, from 0; None for a prompt that stands alone.

    Turns of one conversation keep their order, and each holds what came before.
    """
    turn: int = 0
    """Which of its conversation's turns, from 0."""
    answers: tuple[int, ...] = ()
    """Places in ``messages`` that the server's own answers to the turns before take, one for each of them; empty where the recorded
    ones are sent."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the answer must be, as the request's body says it: ``response_format``, ``tools`` and the like."""

    def continued(self, answers: Sequence[str]) -> Prompt:
        """The same turn after a server's own answers to the turns before it."""
        if self.messages is None or not self.answers:
            return self
        own = dict(zip(self.answers, answers, strict=True))
        messages = tuple(
            {"role": "assistant", "content": own[place]} if place in own else message
            for place, message in enumerate(self.messages)
        )
        return replace(self, messages=messages, answers=())

    @property
    def text(self) -> str:
        """All text of the prompt, messages joined by line ends."""
        if self.messages is None:
            return self.prompt or ""
        return "\n".join(text_of(message.get("content")) for message in self.messages)


@dataclass(frozen=True)
class Conversation:
    """What one record of a file holds. Exactly one of ``prompt`` and ``messages`` is set."""

    prompt: str | None = None
    """A text that stands alone."""
    messages: tuple[dict[str, Any], ...] | None = None
    """All turns as recorded, answers included."""
    category: str | None = None
    max_tokens: int | None = None
    turns: Literal["first", "last"] = "last"
    """What is sent unless the user says otherwise: up to the first answer, or all but the last answer."""
    answered: bool = True
    """Whether the assistant's answers are among the messages; without them only the first turn can be sent."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """As in :class:`Prompt`."""


@dataclass(frozen=True)
class BadLine:
    """A record that cannot be used."""

    place: str
    """``logs.jsonl:12``, ``logs.parquet: row 12``."""
    problem: str
    columns: tuple[str, str] | None = None
    """Which key, by our name and by the file's, likely holds what is to be sent, where none of ours is there."""


@dataclass(frozen=True)
class Row:
    """One record as the file has it."""

    place: str
    data: Any
    """What stands there; usable only if it is an object."""


class BadRecordError(Exception):
    """Why a record cannot be used."""

    columns: tuple[str, str] | None = None
    """As in :class:`BadLine`."""


class RowReader(ABC):
    """Turns a file into records, without holding more than a few of them. Used once."""

    container: ClassVar[str]
    """``JSON lines``, ``CSV``."""
    example: ClassVar[str]
    """A sentence that shows what the format looks like."""
    name: str
    """Of the file."""

    @abstractmethod
    def rows(self) -> Iterator[Row | BadLine]:
        """One for each record of the file, in order.

        Raises:
            WorkloadError: The file cannot be read to its end.
        """

    @abstractmethod
    def sha256(self) -> str:
        """Of what was read, after :meth:`rows`; of a file, of all its bytes."""

    def notes(self) -> tuple[str, ...]:
        """What was not used, after :meth:`rows`."""
        return ()


def text_of(content: Any) -> str:
    """The text of a message's content: a string, a list of text parts, or None."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def a_kind(value: Any) -> str:
    """``a string``, ``null``: how a message names what it found."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def counted(count: int, what: str) -> str:
    """``1 record``, ``3 records``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
