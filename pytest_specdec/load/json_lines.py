"""Workloads as JSON lines: one object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.load.file_bytes import FileBytes
from pytest_specdec.load.prompt_reader import BadLine, BadRecordError, Row, RowReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class JsonLines(RowReader):
    """Reads JSON lines. CRLF and blank lines are fine."""

    container = "JSON lines"
    example = 'Write one object a line: {"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}.'

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = FileBytes(path)

    def rows(self) -> Iterator[Row | BadLine]:
        """One for each line that is not blank."""
        for number, line in self._file.lines():
            if not line.strip():
                continue
            place = f"{self._file.path}:{number}"
            try:
                yield Row(place, json_value(line))
            except BadRecordError as error:
                yield BadLine(place, str(error))

    def sha256(self) -> str:
        """Of the file's bytes."""
        return self._file.sha256()


def json_value(text: str, *, whole: str = "line") -> Any:
    """What a JSON text says.

    Args:
        text: Without anything before or after it but blanks.
        whole: What the text is the whole of, for the message.

    Raises:
        BadRecordError: It is not JSON, or nothing that Python can hold.
    """
    text = text.rstrip()  # so that a fault at the end is not one on the next line
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRecordError(f"not JSON: {_words(error, text, whole)}") from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, a thousand brackets
        raise BadRecordError(f"not usable JSON: {error}") from None


def _words(error: json.JSONDecodeError, text: str, whole: str) -> str:
    """The parser's message; its place counts from a line end that belongs to the text, if the error is behind one."""
    column = min(error.pos, len(text)) + 1
    if text.strip() in ("{", "["):
        return f"{error.msg} (column {column}); one object must stand on one line"
    unclosed = error.msg.startswith("Unterminated string")
    if unclosed or (error.pos >= len(text) and text):
        inside = f"the string that opens at column {column} is not closed" if unclosed else f"{error.msg} there"
        return f"the {whole} ends too early, at column {len(text) + 1}: {inside[0].lower()}{inside[1:]}"
    return f"{error.msg} (column {column})"
