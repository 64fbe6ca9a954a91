"""Workloads as one JSON array of objects, as ShareGPT comes; parsed piece by piece, however large the file is."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.file_bytes import FileBytes
from pytest_specdec.load.prompt_reader import BadLine, Row, RowReader
from pytest_specdec.load.surrogates import has_mark, with_halves_marked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPENING = ("start_map", "start_array")
_CLOSING = ("end_map", "end_array")


class JsonArray(RowReader):
    """Reads the items of a JSON array one by one."""

    container = "JSON array"
    example = 'Write an array of objects: [{"conversations": [{"from": "human", "value": "..."}]}].'

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = FileBytes(path)

    def rows(self) -> Iterator[Row | BadLine]:
        """One for each item; its place is the line on which it begins."""
        import ijson  # type: ignore[import-untyped, unused-ignore] # has no stubs

        items = _Items()
        events = ijson.sendable_list()
        parser = ijson.basic_parse_coro(events)
        number = 1
        try:
            for number, piece in with_halves_marked(self._file.pieces()):
                parser.send(piece)
                yield from self._finished(items, events, number)
            parser.close()
        except (ijson.JSONError, UnicodeDecodeError, ValueError) as error:
            yield from self._finished(items, events, number)
            raise WorkloadError(
                f"not JSON: {_words(error)} (in item {items.count + 1} of the array)",
                where=f"{self._file.path}:{number}",
                remedy="Nothing behind it can be read: repair the file, or write one object a line without the array.",
            ) from None
        yield from self._finished(items, events, number)

    def sha256(self) -> str:
        """Of the file's bytes."""
        return self._file.sha256()

    def _finished(self, items: _Items, events: list[tuple[str, Any]], number: int) -> Iterator[Row | BadLine]:
        for event, value in events:
            if items.ends_with(event, value, number):
                place = f"{self._file.path}:{items.line} (item {items.count})"
                if has_mark(items.value):
                    yield BadLine(place, "holds half a surrogate pair, which cannot be sent as UTF-8")
                else:
                    yield Row(place, items.value)
        events.clear()


class _Items:
    """Puts the items of the outermost array together from the parser's events."""

    def __init__(self) -> None:
        self.count = 0
        self.line = 0
        self.value: Any = None
        self._depth = 0
        self._builder: Any = None

    def ends_with(self, event: str, value: Any, line: int) -> bool:
        """Takes the next event; True when it completes an item."""
        import ijson

        if event in _CLOSING:
            self._depth -= 1
        if self._depth == 1 and self._builder is None and event not in _CLOSING:
            self._builder, self.line = ijson.ObjectBuilder(), line
        if event in _OPENING:
            self._depth += 1
        if self._builder is None:
            return False
        self._builder.event(event, float(value) if isinstance(value, Decimal) else value)
        if self._depth > 1:
            return False
        self.count += 1
        self.value, self._builder = self._builder.value, None
        return True


def _words(error: Exception) -> str:
    """The first line of the parser's message; the others draw an arrow below the text."""
    words = str(error).removeprefix("b'").partition("\\n")[0].partition("\n")[0]
    return re.sub(r"^(parse|lexical) error: ", "", words).strip().rstrip(".'")
