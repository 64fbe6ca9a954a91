r"""Halves of surrogate pairs in JSON text, marked before a parser sees them.

A ``\ud83d`` without its second half is valid JSON and no text: it cannot be sent as UTF-8. The C parser behind ijson makes ``?`` of it,
or another character together with what follows, or gives up. Here it becomes a mark, which passes.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = f"\ufffe{secrets.token_hex(8)}"
"""U+FFFE alone may stand in a text; no text can know what follows it here."""
_MARK_ESCAPED = json.dumps(MARK).strip('"').encode()
_LONGEST = 12
"""Bytes of a pair of escapes."""
_HALF_OR_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def with_halves_marked(pieces: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    r"""The pieces of a JSON text, none ending within an escape, each half of a pair replaced by the mark."""
    rest = b""
    number = 1
    for number, piece in pieces:
        whole = rest + piece
        end = len(whole) if whole.endswith(b"\n") else _end_of_escapes(whole)
        if end:  # to a parser an empty piece is the end of the text
            yield number, _marked(whole[:end])
        rest = whole[end:]
    if rest:
        yield number, _marked(rest)


def has_mark(value: Any) -> bool:
    """Whether a text anywhere in the value was marked."""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, dict):
        return any(has_mark(key) or has_mark(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_mark, value))


def _marked(piece: bytes) -> bytes:
    if not _HALF_OR_PAIR.search(piece):
        return piece
    return _ESCAPE.sub(lambda found: _MARK_ESCAPED if found["half"] else found[0], piece)


def _end_of_escapes(piece: bytes) -> int:
    """Up to where no escape can go on in the next piece: a place with no backslash shortly before it."""
    end = len(piece)
    while (before := piece.rfind(b"\\", max(end - _LONGEST, 0), end)) >= 0:
        end = before
    return end
