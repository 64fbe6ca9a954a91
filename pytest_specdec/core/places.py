"""Where in a text something stands, and how a parser says what is wrong there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top of a document: ``("workloads", "code", "path")``."""


@dataclass(frozen=True, order=True)
class Place:
    """A character of a text; both numbers count from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, text: str, offset: int) -> Place:
        """The place of ``text[offset]``."""
        return cls(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


@dataclass(frozen=True)
class TextProblem:
    """One thing that keeps a text from being read."""

    place: Place
    what: str
    remedy: str = ""


class Unreadable(Exception):  # noqa: N818 - it ends a parse and never leaves the parsers
    """Nothing after ``problem`` can be made sense of."""

    def __init__(self, problem: TextProblem) -> None:
        super().__init__(problem.what)
        self.problem = problem


@dataclass(frozen=True)
class Parsed:
    """What a text holds, and where: as much as could be read, with every problem that was met."""

    data: Any = None
    places: dict[KeyPath, Place] = field(default_factory=dict)
    """Of a member its key, of a list's item the item itself."""
    problems: tuple[TextProblem, ...] = ()


def key_path(keys: KeyPath) -> str:
    """``workloads.code.path``, ``serve[2]``."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[\w-]+", key):
            text += f".{key}" if text else key
        else:
            text += f"[{key!r}]"
    return text
