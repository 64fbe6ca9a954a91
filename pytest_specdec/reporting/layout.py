"""Lines for a terminal of a given width: tables that fold, text that breaks where it may, nothing that a terminal would obey."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDE = 108
"""Columns where nobody said how many there are: files, Markdown, the HTML report."""
_HANGING = 4
_DEEPEST = 8
"""What continues a line is not indented further than this, and ``_HANGING`` more."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUED = " \\"


def printable(text: str) -> str:
    r"""Control characters spelled out (``\x1b``): whatever a server, a file or a plugin said moves no cursor and sets no colour."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def fitted(lines: Iterable[str], width: int) -> list[str]:
    """Lines as they can be printed, broken where they are wider: between columns where they have such, else between words.

    A word is never broken, so that paths, test ids and addresses can be copied: one that is wider than ``width`` stays so.
    """
    return [piece for line in lines for piece in _broken(printable(line), width)]


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width or not line.strip():
        return [line]
    indent = len(line) - len(line.lstrip())
    further = " " * (min(indent, _DEEPEST) + _HANGING)
    first, *columns = re.split(r"( {2,})", line.strip())
    pieces = [" " * indent + first]
    for gap, cell in zip(columns[::2], columns[1::2], strict=True):
        if len(pieces[-1] + gap + cell) <= width:
            pieces[-1] += gap + cell
        else:
            pieces.append(further + cell)
    return [
        part
        for piece in pieces
        for part in textwrap.wrap(
            piece,
            width,
            subsequent_indent=further,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
    ]


def shell_lines(command: str, width: int) -> list[str]:
    """A shell's command, broken so that it can be pasted as it is."""
    first, *words = map(shlex.quote, shlex.split(command))
    lines = [first]
    for word in words:
        if len(f"{lines[-1]} {word}{_CONTINUED}") <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] += _CONTINUED
            lines.append(word)
    return lines


def grid(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    fold: int,
    gaps: Sequence[int] = (),
    indent: int = 0,
    hanging: int = _HANGING,
    right: bool = False,
) -> list[str]:
    """Rows with their cells below each other.

    Where they are wider than ``width``, gaps shrink; where that is not enough, every row takes two lines.

    Args:
        rows: All with as many cells; the first one usually is the heading.
        width: Columns that there are.
        fold: So many cells stay on the first of two lines.
        gaps: Spaces before each cell; three between cells when left out.
        indent: Without ``gaps``, spaces before the first cell.
        hanging: Spaces before the second line.
        right: Whether cells are set to the right.
    """
    gaps = gaps or (indent, *([3] * (len(rows[0]) - 1)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str], spaces: Sequence[int], cells: slice) -> str:
        parts = zip(spaces, row[cells], widths[cells], strict=True)
        padded = (" " * gap + (f"{cell:>{wide}}" if right else f"{cell:<{wide}}") for gap, cell, wide in parts)
        return "".join(padded).rstrip()

    for spaces in (gaps, [min(gap, 2) for gap in gaps]):
        lines = [line(row, spaces, slice(None)) for row in rows]
        if max(map(len, lines)) <= width or len(rows[0]) <= fold:
            return lines
    first, second = slice(fold), slice(fold, None)
    return [
        part
        for row in rows
        for part in (line(row, gaps[first], first), line(row, (hanging, *gaps[second][1:]), second))
        if part
    ]
