"""Several workloads in one measurement: how a mark, or a load point of a config, names them.

A mark says ``workload=["code", "chat"]`` (equal parts) or ``workload={"code": 0.6, "chat": 0.4}`` (shares), a load point the same
as text: ``code + chat``, ``code=0.6 + chat=0.4``. ``mix`` stands for all workloads of the config with a weight. Everything behind the
mark knows the text alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MIX = "mix"
"""The name that stands for every workload of a config, each with its ``weight``."""
_AND = " + "
_TOLERANCE = 1e-3
WANTED = (
    "the name or path of a workload, or several: a list of names for equal parts, such as ['code', 'chat'], or a dict of names "
    "and shares that sum to 1, such as {'code': 0.6, 'chat': 0.4}"
)


@dataclass(frozen=True)
class MixPart:
    """One of several workloads."""

    name: str
    share: float | None
    """Of the requests; None where all get equally many."""


def mix_text(value: object) -> str:
    """What a mark says, as text; a valid value is taken for granted."""
    if isinstance(value, Mapping):
        return _AND.join(f"{name}={float(share):.12g}" for name, share in value.items())
    return _AND.join(value) if isinstance(value, list | tuple) else str(value)


def mix_parts(text: str) -> tuple[MixPart, ...]:
    """The parts of a text that names several workloads; empty for a single name."""
    parts = text.split(_AND)
    return tuple(map(_part, parts)) if len(parts) > 1 else ()


def workload_problem(value: object) -> str | None:
    """What was wanted instead of a mark's or a load point's value; None for a good one."""
    if isinstance(value, Mapping):
        numbers = all(
            isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
            for share in value.values()
        )
        usable = numbers and all(isinstance(name, str) and name for name in value)
        parts = tuple(MixPart(name, float(share)) for name, share in value.items()) if usable else ()
    elif isinstance(value, list | tuple):
        usable = all(isinstance(name, str) and name for name in value)
        parts = tuple(MixPart(name, None) for name in value) if usable else ()
    elif isinstance(value, str) and value:
        parts = mix_parts(value)
        if not parts:
            return None
    else:
        return WANTED
    return _parts_problem(parts)


def _parts_problem(parts: tuple[MixPart, ...]) -> str | None:
    names, shares = [part.name for part in parts], [part.share for part in parts if part.share is not None]
    checks = (
        (len(parts) < 2 or not all(names), WANTED),  # noqa: PLR2004 - a single one is no mix
        (len(set(names)) < len(names), "each workload once"),
        (0 < len(shares) < len(parts), "a share for every workload, or for none"),
        (min(shares, default=1) <= 0, "shares above 0"),
        (bool(shares) and abs(sum(shares) - 1) > _TOLERANCE, f"shares that sum to 1; these sum to {sum(shares):g}"),
    )
    return next((wanted for wrong, wanted in checks if wrong), None)


def _part(text: str) -> MixPart:
    name, equals, share = text.rpartition("=")
    try:
        return MixPart(name.strip(), float(share)) if equals else MixPart(text.strip(), None)
    except ValueError:  # a name with an equals sign of its own
        return MixPart(text.strip(), None)
