"""What is required, what was estimated, and what follows from both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["ok", "FAIL", "unsure"]
Direction = Literal["higher", "lower"]
"""Which way is better: ``higher`` objectives are ``>=``, ``lower`` ones ``<=``."""
Unit = Literal["fraction", "ms", "tokens", "tok/s", "GiB", "s", "count", "yes/no", "req/s"]
"""``yes/no`` is 1 or 0, and 0.5 in an interval from 0 to 1 where it is open."""


@dataclass(frozen=True)
class Estimate:
    """A measured quantity with its interval, in the objective's own unit (fractions stay fractions)."""

    value: float
    low: float | None = None
    high: float | None = None
    """With a level, None means that nothing bounds the quantity on that side (a 99th percentile of 20 requests)."""
    level: float | None = None
    """Confidence level of ``low .. high`` after the correction for looks; None for a fact, which has no interval."""
    samples: int = 0
    """Independent units behind it: requests, pairs, or rounds, as ``basis`` says."""
    basis: str = ""
    """How the interval was made: ``t over 4 rounds``, ``bootstrap over 64 prompts``, ``order statistics``."""
    excluded: int = 0
    """Requests left out because the quantity is undefined for them (one-token answers have no TPOT)."""
    limited_by: str = ""
    """What there should be more of to make the interval narrower: ``rounds`` or ``requests``."""
    needed_requests: int | None = None
    """About how many different requests a round it takes to bound the quantity at all; None where there are enough."""
    censored: Literal["", "above", "below"] = ""
    """The quantity lies beyond ``value``, the end of what was measured: a gain that is not gone at the highest load."""
    remark: str = ""
    """The same thing in another unit, where people know it by that: good requests per second."""


def yes_no(outcome: Outcome, **known: Any) -> Estimate:
    """The estimate of an objective in ``yes/no``; ``known`` are further fields of it."""
    value, low, high = {"FAIL": (0.0, 0.0, 0.0), "unsure": (0.5, 0.0, 1.0), "ok": (1.0, 1.0, 1.0)}[outcome]
    return Estimate(value, low, high, **known)


@dataclass(frozen=True)
class Requirement:
    """One line of a merged ``spec_slo``: an objective, its threshold, and (for mappings) which part of it."""

    objective: str
    required: float
    part: str | None = None
    """``0`` for ``min_acceptance_at={0: 0.7}``; None for plain objectives."""
    options: tuple[tuple[str, float], ...] = ()
    """Further numbers the objective needs: the limits of ``min_goodput``."""

    at: str = ""
    """Which load of a sweep: ``concurrency 8``; empty where there is one load, or where all loads make the figure."""

    @property
    def label(self) -> str:
        """As shown in tables: ``min_acceptance_at[0]``, ``tpot_gain @ concurrency 8``."""
        name = f"{self.objective}[{self.part}]" if self.part is not None else self.objective
        return f"{name} @ {self.at}" if self.at else name


@dataclass(frozen=True)
class Verdict:
    """A requirement judged."""

    requirement: Requirement
    estimate: Estimate
    outcome: Outcome
    direction: Direction
    unit: Unit
    advice: str = ""
    """For unsure: what would settle it. For FAIL: the provable threshold."""
