"""Which known name a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name nearest to ``word``, or None when none is near.

    Case, spaces, and hyphens for underscores never count as a difference.

    Args:
        word: What the user wrote.
        known: Names that would have been right.
        cutoff: Likeness in ``0 .. 1`` (difflib's ratio) below which nothing is suggested.
    """
    names = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(word), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
