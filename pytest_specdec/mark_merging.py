"""How ``spec_slo`` and ``spec_load`` marks merge into one test's objectives and conditions.

Marks on module, class, function and ``pytest.param`` merge name by name, and the nearest wins. A ``spec_slo`` that is
limited to some configs (``configs="ngram*"``) is nearer than one beside it that is not.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.marker import LOAD_MARK, SLO_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specdec.core.verdict import Requirement


@dataclass(frozen=True)
class Placed:
    """A mark and how near to the test it stands (0 = ``pytest.param``, then function, class, module, package)."""

    mark: pytest.Mark
    level: int
    own: bool
    """On the param or the function itself, or on its class; not inherited from a module or package."""


def placed(item: pytest.Function, name: str) -> Iterator[Placed]:
    """Marks of one name, the nearest first."""
    callspec = getattr(item, "callspec", None)
    param_marks = callspec.marks if callspec else ()
    for mark in param_marks:
        if mark.name == name:
            yield Placed(mark, 0, own=True)
    for level, node in enumerate(item.iter_parents(), start=1):
        marks = [
            mark for mark in node.own_markers if mark.name == name and not any(mark is param for param in param_marks)
        ]
        # pytest lists a class's inherited marks before its own.
        for mark in reversed(marks) if isinstance(node, pytest.Class) else marks:
            yield Placed(mark, level, own=isinstance(node, pytest.Function | pytest.Class))


def requirements_for(item: pytest.Function, config_id: str) -> tuple[Requirement, ...]:
    """The objectives of a test for one config, merged."""
    merged: dict[str, Any] = {}
    matching = [p for p in placed(item, SLO_MARK) if _matches(p.mark, config_id)]
    for p in sorted(matching, key=lambda p: (p.level, "configs" not in p.mark.kwargs)):
        for name, value in p.mark.kwargs.items():
            if name != "configs":
                merged.setdefault(name, value)
    return tuple(
        requirement
        for name, value in merged.items()
        if value is not None
        for requirement in REGISTRY[name].parse(value)
    )


def patterns_elsewhere(item: pytest.Function, config_id: str) -> list[str]:
    """The ``configs`` of the test's objectives that are for other configs than this one."""
    marks = [p.mark for p in placed(item, SLO_MARK) if not _matches(p.mark, config_id)]
    return [pattern for mark in marks for pattern in _patterns(mark)]


def load_layers(item: pytest.Function) -> tuple[str | None, list[Mapping[str, Any]]]:
    """The named load point of a test, if any, and the values of its marks with the farthest first.

    A named point counts as the values of the mark it is named in, under them; farther marks' rates are hidden by it.
    """
    name: str | None = None
    layers: list[Mapping[str, Any]] = []
    for p in reversed(list(placed(item, LOAD_MARK))):
        values = dict(p.mark.kwargs)
        if "load" in values:
            name = values.pop("load")
            layers = [
                {key: value for key, value in layer.items() if key not in ("request_rate", "concurrency")}
                for layer in layers
            ]
        layers.append(values)
    return name, layers


def _matches(mark: pytest.Mark, config_id: str) -> bool:
    return any(fnmatch.fnmatchcase(config_id, pattern) for pattern in _patterns(mark))


def _patterns(mark: pytest.Mark) -> list[str]:
    patterns = mark.kwargs.get("configs", "*")
    return [patterns] if isinstance(patterns, str) else list(patterns)
