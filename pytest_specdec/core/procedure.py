"""Settings of the acceptance procedure: thresholds and sizes, given as ``NAME=VALUE``. Imported at pytest's start: no numpy here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytest_specdec.core.errors import Finding
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Goal = Literal["latency", "throughput", "both"]


@dataclass(frozen=True)
class Thresholds:
    """Where one advice ends and the next begins; fractions are fractions."""

    acceptance_length: float = 1.5
    """Below it, stop."""
    tpot_gain: float = 0.3
    """At low load: from here on speculation is worth a second model without further thought."""
    throughput_gain: float = 0.0
    """At high load: below it, throughput is lost."""


@dataclass(frozen=True)
class Procedure:
    """What the steps of the acceptance procedure measure, and what they demand; fractions are fractions."""

    goal: Goal = "both"
    """What speculation shall improve."""
    workloads: tuple[str, ...] = ()
    """Classes of traffic whose acceptance is measured; empty: those of the configs, else code, chat and structured."""
    traffic: str | None = None
    """The workload that is measured at low and at high load; None: chat, or the first one."""
    acceptance_length: float = 1.5
    class_acceptance_length: Mapping[str, float] = field(default_factory=dict)
    """Of a workload in place of ``acceptance_length``, or of the class of a workload's prompts, as ``WORKLOAD/CLASS``."""
    tpot_gain: float = 0.3
    throughput_gain: float = 0.0
    low: int | None = None
    """Concurrency at low load; None: the configs' load point ``low``, else 1."""
    high: int | None = None
    """Concurrency at high load; None: the configs' load point ``high``, else 32, and 4 without a GPU."""
    requests: int | None = None
    """Per round, and at least four times the concurrency, so that throughput has a steady window; None: 64, and 12 without a GPU."""
    max_tokens: int | None = None
    """Of an answer; None: 128, and 32 without a GPU."""
    rounds: int | None = None
    """So many and no more; None: as the config or the ini file says, and 4 without a GPU."""
    repetition: float = 0.3
    """Share of an answer that could be looked up in prompt and answer, from which on ngram and suffix are worth a try."""
    busy: float = 0.85
    """Share of the machine that others may use before step 1 warns."""
    failures: float = 0.01
    """Of a canary: share of requests that may fail."""
    tpot_p95_ms: float | None = None
    """Of a canary, likewise; None: not judged."""
    ttft_p95_ms: float | None = None

    @property
    def live_objectives(self) -> dict[str, float]:
        """What a canary must meet, as ``spec_slo`` takes it."""
        limits = {"tpot_p95_ms": self.tpot_p95_ms, "ttft_p95_ms": self.ttft_p95_ms}
        return {
            "min_acceptance_length": self.acceptance_length,
            "tpot_gain": self.tpot_gain,
            "max_failure_share": self.failures,
            **{name: limit for name, limit in limits.items() if limit is not None},
        }

    @property
    def thresholds(self) -> Thresholds:
        """Those of the advice."""
        return Thresholds(self.acceptance_length, self.tpot_gain, self.throughput_gain)


def _number(low: float, below: float) -> Callable[[str], Any]:
    def read(text: str) -> float:
        value = float(text)
        if not (math.isfinite(value) and low <= value < below):
            raise ValueError
        return value

    return read


def _whole(least: int) -> Callable[[str], Any]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    return read


def _above_zero(text: str) -> float:
    value = _number(0, math.inf)(text)
    if not value:
        raise ValueError
    return float(value)


def _goal(text: str) -> str:
    if text not in get_args(Goal):
        raise ValueError
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError
    return names


def _lengths(text: str) -> dict[str, float]:
    pairs = [one.rpartition(":") for one in text.split(",")]
    if not all(name.strip() for name, _, _ in pairs):
        raise ValueError
    return {name.strip(): _number(1, math.inf)(value) for name, _, value in pairs}


_CONCURRENCY = "a whole number of at least 1"
_MILLISECONDS = "milliseconds, above 0"
_SHARE = "a fraction of at least 0 and below 1, such as 0.3"
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "goal": (_goal, "latency, throughput or both"),
    "workloads": (_names, "names of workloads, separated by commas"),
    "traffic": (lambda text: _names(text)[0], "the name of a workload"),
    "acceptance_length": (_number(1, math.inf), "a number of at least 1"),
    "class_acceptance_length": (_lengths, "NAME:VALUE, separated by commas, such as code:2,support/refund:1.8"),
    "tpot_gain": (_number(-math.inf, 1), "a fraction below 1, such as 0.3"),
    "throughput_gain": (_number(-1, math.inf), "a fraction of at least -1, such as 0 or -0.05"),
    "low": (_whole(1), _CONCURRENCY),
    "high": (_whole(1), _CONCURRENCY),
    "requests": (_whole(2), "a whole number of at least 2"),
    "max_tokens": (_whole(2), "a whole number of at least 2"),
    "rounds": (_whole(2), "a whole number of at least 2"),
    "repetition": (_number(0, 1), _SHARE),
    "busy": (_number(0, 1), _SHARE),
    "failures": (_number(0, 1), _SHARE),
    "tpot_p95_ms": (_above_zero, _MILLISECONDS),
    "ttft_p95_ms": (_above_zero, _MILLISECONDS),
}
"""What reads each setting (a ValueError where it cannot), and what it needs in words."""

assert set(_READERS) == {field.name for field in fields(Procedure)}  # noqa: S101 - the table and the record are one thing


def read_procedure(given: Iterable[str], *, source: str) -> tuple[Procedure, list[Finding]]:
    """The procedure with the settings that are given, and an error for each that cannot be meant.

    Args:
        given: ``NAME=VALUE``; of two for one name the last counts.
        source: The option's name, for errors.
    """
    values: dict[str, Any] = {}
    findings = []
    for setting in given:
        name, separator, text = (part.strip() for part in setting.partition("="))
        if not separator:
            findings.append(Finding("error", source, f"{setting!r} is not NAME=VALUE", "Such as tpot_gain=0.2."))
        elif name not in _READERS:
            near = did_you_mean(name, _READERS)
            what = f"unknown name {name!r}" + (f", did you mean {near!r}?" if near else "")
            findings.append(Finding("error", source, what, f"Known are {', '.join(_READERS)}."))
        else:
            try:
                values[name] = _READERS[name][0](text)
            except ValueError:
                findings.append(Finding("error", source, f"{setting!r}: needs {_READERS[name][1]}"))
    procedure = replace(Procedure(), **values)
    if procedure.low is not None and procedure.high is not None and procedure.low >= procedure.high:
        what = f"low={procedure.low} is not below high={procedure.high}"
        findings.append(Finding("error", source, what, "They are concurrencies: a quiet hour and a busy one."))
    return procedure, findings
