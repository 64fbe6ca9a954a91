"""Workloads as CSV: a header and one prompt a row."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.file_bytes import FileBytes
from pytest_specdec.load.json_lines import json_value
from pytest_specdec.load.prompt_reader import BadLine, BadRecordError, Row, RowReader, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_DELIMITERS = (",", ";", "\t", "|")
_CONTENT = ("prompt", "messages", "conversations", "turns")
_NESTED = ("messages", "conversations", "turns")
_MAX_CELL = 2**31 - 1
"""Characters; the csv module stops at 131072 otherwise, and prompts can be longer."""


class CsvRows(RowReader):
    """Reads CSV with commas, semicolons, tabs or bars, whichever the header has most of."""

    container = "CSV"
    example = "Write a header with a column `prompt`, and one prompt a row."

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.name = path.name
        self._file = FileBytes(path)
        self._columns = columns

    def rows(self) -> Iterator[Row | BadLine]:
        """One for each row below the header that is not blank; its place is the line on which it begins."""
        numbered = self._file.lines()
        start, first = next(((number, line) for number, line in numbered if line.strip()), (1, ""))
        lines = chain([first], (line for _, line in numbered))
        header: list[str] | None = None
        with _long_cells():
            reader = csv.reader(lines, delimiter=_delimiter(first), strict=True)
            while True:
                place = f"{self._file.path}:{start + reader.line_num}"
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield BadLine(place, f"not CSV: {error}")
                    continue
                if header is None:
                    header = self._checked(cells, place)
                elif any(cell.strip() for cell in cells):
                    yield self._row(header, cells, place)

    def sha256(self) -> str:
        """Of the file's bytes."""
        return self._file.sha256()

    def _checked(self, cells: Sequence[str], place: str) -> list[str]:
        header = [cell.strip() for cell in cells]
        twice = sorted({name for name in header if name and header.count(name) > 1})
        if twice:
            raise WorkloadError(f"two columns are called {twice[0]!r}", where=place, remedy="Rename one of them.")
        named = {ours: self._columns.get(ours, ours) for ours in _CONTENT}
        if not any(name in header for name in named.values()):
            raise WorkloadError(
                f"no column is called {' or '.join(map(repr, named.values()))}; there are {', '.join(map(repr, header))}",
                where=place,
                remedy="Say which column is which, such as `columns: {prompt: request, category: kind}`.",
            )
        return header

    def _row(self, header: Sequence[str], cells: Sequence[str], place: str) -> Row | BadLine:
        if len(cells) != len(header):
            return BadLine(place, f"{counted(len(cells), 'cell')}, and the header has {len(header)}")
        data: dict[str, Any] = {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True)}
        try:
            for ours in _NESTED:
                name = self._columns.get(ours, ours)
                if data.get(name) is not None:
                    data[name] = json_value(data[name], whole="cell")
            name = self._columns.get("max_tokens", "max_tokens")
            if data.get(name) is not None:
                data[name] = _whole_number(data[name], name)
        except BadRecordError as error:
            return BadLine(place, str(error))
        return Row(place, data)


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _whole_number(cell: str, name: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise BadRecordError(f"'{name}' is {cell.strip()!r}, not a whole number") from None


@contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(_MAX_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)
