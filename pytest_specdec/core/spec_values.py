"""Values of a speculative config: what vLLM's pydantic makes of them, and what it refuses.

vLLM converts where pydantic's lax mode does: ``"3"`` and ``3.0`` become 3, ``true`` becomes 1. The first two are told, the last is
refused, because nobody means it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.config_rules import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.spec_fields import SpecField

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})
_TOO_LARGE = 2**63
"""From here on pydantic no longer turns a float into a whole number."""
_WHOLE = re.compile(r"\s*[+-]?\d+(_\d+)*(\.0+)?\s*")
_NUMBER = re.compile(r"\s*[+-]?(\d+(_\d+)*(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Taken:
    """What vLLM would make of a value."""

    value: Any = None
    """As vLLM takes it; None where it takes it for left out, or refuses it."""
    fault: str = ""
    """Why it is refused."""
    oddity: str = ""
    """What is odd about it, though it is taken."""


def taken(field: SpecField, value: Any) -> Taken:
    """A key's value as vLLM would take it. Kinds with a shape of their own are judged by the rules, and come back as they are."""
    if value is None:
        return (
            Taken(oddity="is null, which vLLM takes for left out")
            if field.nullable
            else Taken(fault="is null, and vLLM wants a value")
        )
    reader = _READERS.get(field.kind)
    result = reader(value) if reader else Taken(value)
    if result.fault or result.value is None:
        return result
    return Taken(fault=fault) if (fault := _bounds(field, result.value)) else result


def _bounds(field: SpecField, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if field.least == 1 and field.kind == "int" and value < 1:
        return f"must be positive, not {value:g}"
    if field.least is not None and value < field.least:
        return f"must be at least {field.least:g}, not {value:g}"
    if field.most is not None and value > field.most:
        return f"must be at most {field.most:g}, not {value:g}"
    return ""


def _int(value: Any) -> Taken:
    if isinstance(value, bool):
        return Taken(fault=f"is {shown(value)}: vLLM would take it as {int(value)}, and a whole number is meant")
    if isinstance(value, int):
        return Taken(value)
    number = _number(value)
    if number is None or (isinstance(value, float) and abs(number) >= _TOO_LARGE):
        return Taken(fault=f"must be a whole number, not {shown(value)}")
    if not number.is_integer() or (isinstance(value, str) and not _WHOLE.fullmatch(value)):
        return Taken(fault=f"is not an integer but {shown(value)}")
    return Taken(int(number), oddity=f"is {shown(value)}, taken as {int(number)}")


def _float(value: Any) -> Taken:
    if isinstance(value, bool):
        return Taken(fault=f"is {shown(value)}: vLLM would take it as {int(value)}, and a number is meant")
    number = _number(value)
    if number is None:
        return Taken(fault=f"must be a number, not {shown(value)}")
    return Taken(number, oddity=f"is {shown(value)}, taken as {number:g}" if isinstance(value, str) else "")


def _number(value: Any) -> float | None:
    """A finite number, or the text of one."""
    if isinstance(value, str):
        value = float(value.replace("_", "")) if _NUMBER.fullmatch(value) else math.nan
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:
        return None


def _bool(value: Any) -> Taken:
    if isinstance(value, bool):
        return Taken(value)
    word = str(int(value)) if isinstance(value, int | float) and value in (0, 1) else value
    word = word.strip().lower() if isinstance(word, str) else ""
    if word in _TRUE | _FALSE:
        return Taken(word in _TRUE, oddity=f"is {shown(value)}, taken as {shown(word in _TRUE)}")
    return Taken(fault=f"must be true or false, not {shown(value)}")


def _text(value: Any) -> Taken:
    if not isinstance(value, str):
        return Taken(fault=f"must be text, not {shown(value)}")
    return Taken(value) if value.strip() else Taken(fault="is an empty text")


def _object(value: Any) -> Taken:
    return Taken(value) if isinstance(value, dict) else Taken(fault=f"must be an object, not {shown(value)}")


def _floats(value: Any) -> Taken:
    if not isinstance(value, list):
        return Taken(fault=f"must be a list of numbers, not {shown(value)}")
    items = [_float(item) for item in value]
    if bad := [item.fault for item in items if item.fault]:
        return Taken(fault=f"holds an entry that {bad[0]}")
    oddities = [item.oddity for item in items if item.oddity]
    return Taken([item.value for item in items], oddity=f"holds an entry that {oddities[0]}" if oddities else "")


_READERS: dict[str, Callable[[Any], Taken]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "text": _text,
    "choice": _text,
    "object": _object,
    "floats": _floats,
}
