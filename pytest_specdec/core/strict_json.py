"""JSON read strictly, with places, and with words for the ways in which people get it wrong.

The standard parser keeps the last of two equal keys, takes NaN, and gives no places; a gate must not guess which of two
numbers of draft tokens was meant.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from pytest_specdec.core.places import KeyPath, Parsed, Place, TextProblem, Unreadable

MAX_DEPTH = 100
_MAX_NUMBER_LENGTH = 300
_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[-+.\w]+")
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9]")
_CONSTANTS = {"true": True, "false": False, "null": None}
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_NOT_FINITE = {"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"}
_PYTHON_REMEDY = "Write double quotes, true, false and null; json.dumps() turns the dict into JSON."
_QUOTES_REMEDY = "In JSON every text and every key has double quotes; a shell may have eaten them."
_COMMA_REMEDY = "Remove it: JSON has no comma after the last entry."

_SLASHES = ("JSON has no comments", "Remove the comment, or write the file as .yaml with # comments.")
_TYPOGRAPHIC = ("a typographic quote: damaged quoting", 'Write the plain double quote ".')
_TELLING = {
    "'": ("a single quote: this is a Python dict, not JSON", _PYTHON_REMEDY),
    "\\": (
        "a backslash outside a string: damaged quoting",
        "The quotes were escaped for a shell; remove the backslashes.",
    ),
    "#": _SLASHES,
    "/": _SLASHES,
    **dict.fromkeys("\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb", _TYPOGRAPHIC),
}
"""Characters that tell by themselves what went wrong, wherever they stand outside a string."""


def parse_json(text: str) -> Parsed:
    """Read one JSON document (RFC 8259, and no name twice).

    Everything that can be stepped over (a name given twice, a comma too many, ``True``, ``NaN``) is reported together; what
    breaks the structure ends the reading. Never raises.
    """
    return _Reader(text).document()


class _Reader:
    """One pass over a text; ``_at`` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._places: dict[KeyPath, Place] = {}
        self._problems: list[TextProblem] = []

    def document(self) -> Parsed:
        data: Any = None
        try:
            data = self._value((), opened=None)
            self._skip_blanks()
            if self._at < len(self._text):
                self._stop(
                    self._at,
                    "more text after the end of the data",
                    "A config file holds one JSON object and nothing else.",
                )
        except Unreadable as stop:
            self._problems.append(stop.problem)
        return Parsed(data, self._places, tuple(sorted(self._problems, key=lambda problem: problem.place)))

    def _value(self, keys: KeyPath, opened: int | None) -> Any:
        self._skip_blanks()
        if len(keys) > MAX_DEPTH:
            self._stop(self._at, f"nested more than {MAX_DEPTH} levels deep")
        match self._peek():
            case "{":
                return self._object(keys)
            case "[":
                return self._array(keys)
            case '"':
                return self._string()
            case _:
                return self._word(opened)

    def _word(self, opened: int | None) -> bool | float | None:
        """A constant or a number; what else people write there is named."""
        start = self._at
        found = _WORD.match(self._text, start)
        word = found.group() if found else ""
        if not word:
            self._stop(start, *self._unexpected(opened, wanted="a value"))
        self._at += len(word)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word in _PYTHON:
            python = f"{word} is Python, in JSON it is {_PYTHON[word]} (a Python dict, not JSON)"
            self._note(start, python, _PYTHON_REMEDY)
        elif word in _NOT_FINITE:
            self._note(start, f"{word} is not a number that JSON has")
        elif _NUMBER_LIKE.match(word):
            return self._number(start, word)
        else:
            self._stop(start, f"`{_short(word)}` stands without quotes", _QUOTES_REMEDY)
        return None

    def _number(self, start: int, word: str) -> float | None:
        if not _NUMBER.fullmatch(word):
            self._note(start, f"{_short(word)} is not a JSON number")
            return None
        value: float = math.inf if len(word) > _MAX_NUMBER_LENGTH else json.loads(word)
        if not math.isfinite(value):
            self._note(start, f"the number {_short(word)} is too large")
            return None
        return value

    def _string(self) -> str:
        start = self._at
        try:
            value, self._at = json.JSONDecoder().raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Invalid control character"):
                self._stop(
                    error.pos,
                    "a line break or control character inside a string",
                    f"The string opens at {_named(Place.of(self._text, start))}; is its closing quote missing?",
                )
            if error.msg.startswith("Unterminated"):
                self._stop(
                    start,
                    "the string that opens here is never closed",
                    "Quoting is damaged: add the closing double quote.",
                )
            self._stop(error.pos, f"damaged escape in a string ({error.msg})", "Write a backslash as \\\\.")
        if fault := unusable_text(value):
            self._note(start, f"the string holds {fault}, with which no program can be started")
        return str(value)

    def _array(self, keys: KeyPath) -> list[Any]:
        opened = self._at
        items: list[Any] = []
        self._at += 1
        self._skip_blanks()
        while self._peek() != "]":
            item = (*keys, len(items))
            self._places[item] = Place.of(self._text, self._at)
            items.append(self._value(item, opened))
            self._next_entry(opened, "]")
        self._at += 1
        return items

    def _object(self, keys: KeyPath) -> dict[str, Any]:
        opened = self._at
        members: dict[str, Any] = {}
        self._at += 1
        self._skip_blanks()
        while self._peek() != "}":
            key_at = self._at
            if self._peek() != '"':
                self._stop(key_at, *self._unexpected(opened, wanted="a key in double quotes"))
            key = self._string()
            self._skip_blanks()
            if self._peek() != ":":
                self._stop(self._at, *self._unexpected(opened, wanted=f"a colon after the key {_short(key)}"))
            self._at += 1
            member = (*keys, key)
            place = Place.of(self._text, key_at)
            if key in members:
                first = _named(self._places[member])
                self._note(
                    key_at,
                    f"{_short(key)} is given twice, first at {first}; vLLM would take the last",
                    "Keep the one you mean.",
                )
            self._places.setdefault(member, place)
            members[key] = self._value(member, opened)
            self._next_entry(opened, "}")
        self._at += 1
        return members

    def _next_entry(self, opened: int, closing: str) -> None:
        """From the end of an entry to the start of the next one, or to the closing bracket."""
        self._skip_blanks()
        if self._peek() == ",":
            comma = self._at
            self._at += 1
            self._skip_blanks()
            if self._peek() == closing:
                self._note(comma, f"a trailing comma before {closing}", _COMMA_REMEDY)
        elif self._peek() != closing:
            what, remedy = self._unexpected(opened, wanted=f"a comma or {closing}")
            self._stop(self._at, what, remedy)

    def _unexpected(self, opened: int | None, wanted: str) -> tuple[str, str]:
        """What to say about a character that cannot stand where it stands."""
        character = self._peek()
        word = _WORD.match(self._text, self._at)
        if not character:
            where = (
                f"; what opens at {_named(Place.of(self._text, opened))} is never closed" if opened is not None else ""
            )
            return f"the text ends where {wanted} is needed{where}", "The file may have been cut short."
        if character in _TELLING:
            return _TELLING[character]
        if character == "," and "comma" not in wanted:
            return f"a comma where {wanted} is needed", "Remove it: there is one comma too many."
        if word:
            return f"`{_short(word.group())}` where {wanted} is needed", _QUOTES_REMEDY
        return f"{character!r} where {wanted} is needed", ""

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at

    def _note(self, offset: int, what: str, remedy: str = "") -> None:
        self._problems.append(TextProblem(Place.of(self._text, offset), what, remedy))

    def _stop(self, offset: int, what: str, remedy: str = "") -> NoReturn:
        raise Unreadable(TextProblem(Place.of(self._text, offset), what, remedy))


def unusable_text(value: str) -> str | None:
    """What keeps a text from being an argument or environment value of a process, or None."""
    if "\0" in value:
        return "a NUL character"
    return "half of a surrogate pair" if any("\ud800" <= c <= "\udfff" for c in value) else None


def _named(place: Place) -> str:
    return f"line {place.line}, column {place.column}"


def _short(word: str, limit: int = 40) -> str:
    return word if len(word) <= limit else word[:limit] + "..."
