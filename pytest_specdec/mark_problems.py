"""What is wrong with the marks of a test: said at collection, before any server starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import MarkError, SpecDecError
from pytest_specdec.core.load_spec import load_problems
from pytest_specdec.core.objectives import REGISTRY, unknown
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.core.sweep import check_requirement, loads_of
from pytest_specdec.core.workload_mix import mix_parts
from pytest_specdec.mark_merging import Placed, load_layers, placed
from pytest_specdec.marker import LOAD_MARK, MEASURING_FIXTURE, SLO_MARK, judges_live, measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def problems_of(item: pytest.Function, *, gates_run: bool) -> list[str]:
    """Everything that is wrong with the marks of one test, a line each; empty when nothing is.

    Args:
        item: The test.
        gates_run: Whether a config was given, so that set-up will really take its time.
    """
    slo = list(placed(item, SLO_MARK))
    load = list(placed(item, LOAD_MARK))
    if not slo and not load:
        return []
    problems = [f"{SLO_MARK}: {text}" for p in slo for text in _slo_problems(p.mark)]
    problems += [f"{LOAD_MARK}: {text}" for p in load for text in _load_problems(p.mark)]
    problems += _twice(slo)
    if not (measures(item) or judges_live(item)):
        problems += [
            f"{p.mark.name}: the test does not use the fixture {MEASURING_FIXTURE!r}, so nothing would be measured; "
            f"add it to the test's arguments, or remove the mark"
            for p in (*slo, *load)
            if p.own
        ]
    elif slo:
        problems += _xfail_problems(item)
        problems += _timeout_problems(item) if gates_run else []
        problems += [] if problems else [*_impossible(item), *_unknown_classes(item)]
    return list(dict.fromkeys(problems))


def _slo_problems(mark: pytest.Mark) -> Iterator[str]:
    if mark.args:
        yield f"takes keyword arguments only, such as tpot_gain=0.3; got {', '.join(map(repr, mark.args))}"
    patterns = mark.kwargs.get("configs", "*")
    if not isinstance(patterns, str) and not (
        isinstance(patterns, list | tuple) and patterns and all(isinstance(p, str) for p in patterns)
    ):
        yield f"configs={patterns!r}: needs a pattern such as 'ngram*', or a list of them"
    names = [name for name in mark.kwargs if name != "configs"]
    if not names and not mark.args:
        yield "no objective given; name at least one, such as tpot_gain=0.3"
    for name in names:
        if name not in REGISTRY:
            yield unknown(name, others=["configs"])
        elif mark.kwargs[name] is not None:
            try:
                REGISTRY[name].parse(mark.kwargs[name])
            except MarkError as error:
                yield str(error)


def _load_problems(mark: pytest.Mark) -> Iterator[str]:
    if mark.args:
        yield f"takes keyword arguments only, such as concurrency=8; got {', '.join(map(repr, mark.args))}"
    elif not mark.kwargs:
        yield "nothing given; name at least one condition, such as workload='code'"
    point = mark.kwargs.get("load", "named")
    if not isinstance(point, str) or not point:
        yield f"load={point!r}: needs the name of a load point of the config"
    elif "load" in mark.kwargs and {"request_rate", "concurrency"} & set(mark.kwargs):
        yield "load names a point with its own rate; do not give request_rate or concurrency beside it"
    yield from load_problems(mark.kwargs, also_known=["load"])


def _twice(placed: list[Placed]) -> list[str]:
    """The same objective twice at one place, with different values and for the same configs: nobody could say which holds."""
    seen: dict[tuple[int, str, str], Any] = {}
    problems = []
    for p in placed:
        for name, value in p.mark.kwargs.items():
            key = (p.level, name, repr(p.mark.kwargs.get("configs")))
            if name != "configs" and p.own and seen.setdefault(key, value) != value and p.level <= 1:
                problems.append(f"{SLO_MARK}: {name} is given twice at one place, as {seen[key]!r} and {value!r}")
    return problems


def _xfail_problems(item: pytest.Function) -> list[str]:
    for mark in item.iter_markers("xfail"):
        strict = mark.kwargs.get("strict", item.config.getini("xfail_strict"))
        if not strict and mark.kwargs.get("run", True):
            return ["xfail on a gate needs strict=True: otherwise it is green whether the objective is met or missed"]
    return []


def _timeout_problems(item: pytest.Function) -> list[str]:
    """A pytest-timeout that covers fixtures would kill the servers' start."""
    if not item.config.pluginmanager.hasplugin("timeout"):
        return []
    mark = item.get_closest_marker("timeout")
    arguments = (
        {**dict(zip(("timeout", "method", "func_only"), mark.args, strict=False)), **mark.kwargs} if mark else {}
    )
    seconds = arguments.get("timeout", item.config.getoption("timeout", None))
    if seconds is None:
        seconds = os.environ.get("PYTEST_TIMEOUT") or item.config.getini("timeout") or 0
    func_only = arguments.get("func_only")
    if func_only is None:
        func_only = item.config.getini("timeout_func_only")
    if float(seconds) <= 0 or func_only:
        return []
    return [
        (
            f"pytest-timeout would end this test's set-up, which starts servers and measures, after {float(seconds):g} s; set the ini "
            "option timeout_func_only = true, or mark the test with @pytest.mark.timeout(0)"
        )
    ]


def _impossible(item: pytest.Function) -> list[str]:
    """Objectives that no measurement under the declared load could judge."""
    name, layers = load_layers(item)
    if name is not None:
        return []  # the point's values are only known with the config
    loads = loads_of(layers)
    problems = set()
    nearest: dict[str, Any] = {}
    for p in placed(item, SLO_MARK):
        for objective, value in p.mark.kwargs.items():
            if "configs" not in p.mark.kwargs:
                nearest.setdefault(objective, value)
            if objective == "configs" or value is None or nearest.get(objective, value) is None:
                continue
            try:
                for requirement in REGISTRY[objective].parse(value):
                    check_requirement(requirement, loads)
            except SpecDecError as error:
                problems.add(f"{SLO_MARK}: {error}")
    return sorted(problems)


def _unknown_classes(item: pytest.Function) -> list[str]:
    """Floors for classes that are not among the workloads that the mark names: their names are the classes."""
    name, layers = load_layers(item)
    classes = [part.name for part in mix_parts(loads_of(layers)[0].workload)] if name is None else []
    if not classes:
        return []
    problems = []
    for p in placed(item, SLO_MARK):
        for objective, value in p.mark.kwargs.items():
            if objective == "configs" or value is None or not REGISTRY[objective].per_class:
                continue
            for part in (one.part for one in REGISTRY[objective].parse(value) if one.part is not None):
                if part not in classes:
                    meant = did_you_mean(part, classes)
                    hint = f", did you mean {meant!r}?" if meant else f"; there are {', '.join(classes)}"
                    problems.append(f"{SLO_MARK}: {objective}: the workloads have no class {part!r}{hint}")
    return problems
