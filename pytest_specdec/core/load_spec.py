"""The conditions of a measurement: what ``spec_load`` and named load points declare, with their defaults and bounds.

Imported while tests are collected, so it stays free of heavy imports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.core.workload_mix import mix_text, workload_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True)
class LoadSpec:
    """Conditions under which both arms are measured.

    Two tests whose resolved ``LoadSpec`` is equal share one measurement. Exactly one of ``request_rate`` and
    ``concurrency`` is set.
    """

    workload: str = "chat"
    """A name or path, or several as :mod:`pytest_specdec.core.workload_mix` writes them: ``code=0.6 + chat=0.4``."""
    request_rate: float | None = None
    """Open loop: Poisson arrivals per second."""
    concurrency: int | None = 8
    """Closed loop: requests in flight."""
    num_requests: int = 64
    max_tokens: int = 128
    """Used where the workload's line has no ``max_tokens`` of its own."""
    ignore_eos: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    """-1 switches it off, as in vLLM."""
    seed: int = 0
    """Arrivals, choice of prompts, sampling."""
    rounds: int = 4
    max_rounds: int = 12
    budget_s: float = 900.0
    confidence: float = 0.95
    max_failures: float = 0.0
    """Share of requests that may fail before the measurement is an error."""
    clients: int | Literal["auto"] = 1
    """Processes that send the requests; ``auto`` takes more than one where a core could not read all streams in time."""

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive on their own clock instead of waiting for answers."""
        return self.request_rate is not None

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked of the servers, by name.

        Without how long it is measured, and without the workload's name, which may be a path seen from somewhere else.
        """
        effort = ("workload", "rounds", "max_rounds", "budget_s", "confidence", "max_failures", "clients")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in effort}

    @property
    def at(self) -> str:
        """``concurrency 8`` or ``2 per second``."""
        return f"concurrency {self.concurrency}" if self.request_rate is None else f"{self.request_rate:g} per second"

    def describe(self) -> str:
        """``64 requests at concurrency 8`` or ``64 requests at 2 per second``."""
        return f"{self.num_requests} requests at {self.at}"


def _whole(minimum: int, also: int | None = None) -> Callable[[Any], str | None]:
    wanted = f"a whole number of at least {minimum}" + (f", or {also}" if also is not None else "")

    def check(value: Any) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and (value >= minimum or value == also)
        return None if right else wanted

    return check


def _number(accept: Callable[[float], bool], wanted: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        right = (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and accept(value)
        )
        return None if right else wanted

    return check


def _or_sweep(check: Callable[[Any], str | None], such_as: str) -> Callable[[Any], str | None]:
    """Also a list of such values, from the lowest to the highest."""

    def checked(values: Any) -> str | None:
        if not isinstance(values, list | tuple):
            return check(values)
        faults = [wanted for wanted in map(check, values) if wanted]
        if faults:
            return f"in every place of the list {faults[0]}"
        rises = len(values) > 1 and all(lower < higher for lower, higher in pairwise(values))
        return None if rises else f"two values or more that rise, such as {such_as}, where it is a list"

    return checked


def _instance(kind: type, wanted: str) -> Callable[[Any], str | None]:
    return lambda value: None if isinstance(value, kind) and value != "" else wanted


LOAD_FIELDS: Mapping[str, Callable[[Any], str | None]] = {
    "workload": workload_problem,
    "request_rate": _or_sweep(_number(lambda value: value > 0, "requests per second, above 0"), "[1, 5, 20]"),
    "concurrency": _or_sweep(_whole(1), "[1, 8, 32]"),
    "num_requests": _whole(1),
    "max_tokens": _whole(1),
    "ignore_eos": _instance(bool, "True or False"),
    "temperature": _number(lambda value: value >= 0, "a number of at least 0"),
    "top_p": _number(lambda value: 0 < value <= 1, "a number above 0 and at most 1"),
    "top_k": _whole(1, also=-1),
    "seed": _whole(0),
    # One round cannot tell noise from effect: the arms would differ by whatever the machine did meanwhile.
    "rounds": _whole(2),
    "max_rounds": _whole(2),
    "budget_s": _number(lambda value: value > 0, "seconds, above 0"),
    "confidence": _number(lambda value: 0.5 <= value < 1, "a fraction of at least 0.5 and below 1, such as 0.95"),  # noqa: PLR2004 - as the text says
    "max_failures": _number(lambda value: 0 <= value < 1, "a share of at least 0 and below 1"),
    "clients": lambda value: (
        None if value == "auto" or _whole(1)(value) is None else "a whole number of at least 1, or 'auto'"
    ),
}
"""What each field accepts: a function from a value to None, or to the words for what is wanted."""

assert set(LOAD_FIELDS) == {field.name for field in fields(LoadSpec)}  # noqa: S101 - the table and the record are one thing


def load_problems(given: Mapping[str, Any], *, also_known: Iterable[str] = ()) -> list[str]:
    """What is wrong with the values of one mark or load point; empty when nothing is.

    Args:
        given: Field name to value, as the user wrote them.
        also_known: Names that are valid here and checked elsewhere (``load`` in a mark).
    """
    problems = []
    also_known = set(also_known)
    for name, value in given.items():
        if name in also_known:
            continue
        if name not in LOAD_FIELDS:
            suggestion = did_you_mean(name, [*LOAD_FIELDS, *also_known])
            problems.append(f"unknown name {name!r}" + (f", did you mean {suggestion!r}?" if suggestion else ""))
        elif wanted := LOAD_FIELDS[name](value):
            problems.append(f"{name}={value!r}: needs {wanted}")
    if given.get("request_rate") is not None and given.get("concurrency") is not None:
        problems.append("request_rate and concurrency exclude each other: an open loop or a closed one")
    if not problems and "rounds" in given and "max_rounds" in given and given["rounds"] > given["max_rounds"]:
        problems.append(f"rounds={given['rounds']} is above max_rounds={given['max_rounds']}")
    return problems


def merge_load(layers: Iterable[Mapping[str, Any]]) -> LoadSpec:
    """One ``LoadSpec`` from layers of valid values, the farthest (weakest) first.

    A layer that sets ``request_rate`` or ``concurrency`` replaces whichever of the two a weaker layer had set, and one that
    sets only ``rounds`` lifts a smaller inherited ``max_rounds`` to it.
    """
    spec = LoadSpec()
    for layer in layers:
        values = dict(layer)
        if "workload" in values:
            values["workload"] = mix_text(values["workload"])
        if values.get("request_rate") is not None:
            values["concurrency"] = None
        elif values.get("concurrency") is not None:
            values["request_rate"] = None
        spec = replace(spec, **values)
        if spec.max_rounds < spec.rounds:
            lifted = "rounds" in values and "max_rounds" not in values
            spec = replace(spec, max_rounds=spec.rounds) if lifted else replace(spec, rounds=spec.max_rounds)
    return spec
