"""How each kind of knob's value is checked, whatever the knob."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _signed(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError("must be a number")
    return float(value)


def _number(value: Any) -> float:
    if _signed(value) < 0:
        raise ValueError("must not be negative")
    return float(value)


def _share(value: Any) -> float:
    if not 0 <= _signed(value) <= 1:
        raise ValueError("must be a share from 0 to 1")
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("must be a whole number of 0 or more")
    return value


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TypeError("must be a whole number of 1 or more")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a string")
    return value


def _shares(value: Any) -> float | tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        return _share(value)
    if not value:
        raise ValueError("must name at least one position")
    return tuple(_share(item) for item in value)


def _range(value: Any) -> tuple[int, ...]:
    items = [value, value] if isinstance(value, int) else value
    if not isinstance(items, (list, tuple)) or len(items) != 2:  # noqa: PLR2004 - shortest and longest
        raise TypeError("must be [shortest, longest]")
    shortest, longest = (_integer(item) for item in items)
    if not 1 <= shortest <= longest:
        raise ValueError("must be [shortest, longest] with 1 <= shortest <= longest")
    return (shortest, longest)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("must be a list of strings")
    return tuple(_text(item) for item in value)


READERS: dict[str, Callable[[Any], Any]] = {
    "float": _number,
    "Share": _share,
    "Signed": _signed,
    "int": _integer,
    "Positive": _positive,
    "bool": _flag,
    "str": _text,
    "Share | tuple[Share, ...]": _shares,
    "tuple[int, ...]": _range,
    "tuple[str, ...]": _texts,
}
"""By the annotation of the knob's field. Each reader raises TypeError or ValueError with the end of a sentence."""
