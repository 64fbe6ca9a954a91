"""What may stand on the right of ``spec_slo(name=...)``: checked while tests are collected, so without heavy imports."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import MarkError
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.core.verdict import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable

    Parse = Callable[[str, object], tuple[Requirement, ...]]

CROSSING_GAINS = ("tpot_gain", "throughput_gain")
"""The gains that may be gone at some load."""
REGRESSIONS = ("tpot", "throughput", "acceptance_length", "tpot_gain")
"""What may have got worse since a saved result."""
GOODPUT_LIMITS = ("ttft_ms", "tpot_ms", "e2el_ms")
_LARGEST_GAIN = 5.0
"""More is taken for percent: nothing that accepts a handful of tokens per step is six times as fast."""
_PERCENT = 100


def number(name: str, value: object) -> float:
    """A finite number.

    Raises:
        MarkError: A boolean, a string, NaN, infinity, or no number at all.
    """
    if isinstance(value, bool):
        raise MarkError(f"{name}={value}: needs a number, not a boolean")
    if isinstance(value, str):
        raise MarkError(f"{name}={value!r}: needs a number, not a string; write it without quotes")
    if not isinstance(value, numbers.Real):
        raise MarkError(f"{name}={value!r}: needs a number, not {type(value).__name__}")
    result = float(value)
    if not math.isfinite(result):
        raise MarkError(f"{name}={value}: needs a finite number")
    return result


def time_gain(name: str, value: object) -> tuple[Requirement, ...]:
    """A fraction of time saved: below 1, negative allowed."""
    gain = number(name, value)
    if gain >= 1:
        raise MarkError(f"{name}={value}: nothing saves {gain:.0%} of the time{_meant(gain, speedup=True)}")
    _check_not_percent(name, value, gain)
    return (Requirement(name, gain),)


def rate_gain(name: str, value: object) -> tuple[Requirement, ...]:
    """A fraction of throughput won: above -1."""
    gain = number(name, value)
    if gain >= _LARGEST_GAIN:
        raise MarkError(f"{name}={value}: that is {gain:.0%} more{_meant(gain)}")
    _check_not_percent(name, value, gain)
    if gain <= -1:
        raise MarkError(f"{name}={value}: throughput cannot fall by {-gain:.0%}, so this is always met")
    return (Requirement(name, gain),)


def share(name: str, value: object) -> tuple[Requirement, ...]:
    """A fraction between 0 and 1."""
    return (Requirement(name, _share(name, value)),)


def share_below_one(name: str, value: object) -> tuple[Requirement, ...]:
    """A fraction from 0 to 1, but not 1: no number of answers proves that all others match, too."""
    (required,) = share(name, value)
    if required.required == 1:
        raise MarkError(
            f"{name}={value}: two plain servers do not match in every answer either; take a share such as 0.9, or lossless=True, "
            "which knows that noise floor"
        )
    return (required,)


def length(name: str, value: object) -> tuple[Requirement, ...]:
    """Tokens of a step, the one that plain decoding yields included: at least 1."""
    tokens = number(name, value)
    if tokens < 1:
        raise MarkError(
            f"{name}={value}: it counts the token that every step yields and is never below 1, so this is always met; "
            "for a share of drafted tokens there is min_acceptance_rate"
        )
    return (Requirement(name, tokens),)


def positive(name: str, value: object) -> tuple[Requirement, ...]:
    """A limit above zero."""
    limit = number(name, value)
    if limit <= 0:
        raise MarkError(f"{name}={value}: needs a number above 0")
    return (Requirement(name, limit),)


def crossover(name: str, value: object) -> tuple[Requirement, ...]:
    """A load up to which the TPOT gain must last, or ``{'tpot_gain': 16, 'throughput_gain': 8}``, one requirement each."""
    if not isinstance(value, Mapping):
        return positive(name, value)
    example = "{'tpot_gain': 16, 'throughput_gain': 8}"
    if not value:
        raise MarkError(f"{name}={value!r}: needs gains and loads, such as {example}")
    for gain in value:
        if gain not in CROSSING_GAINS:
            near = did_you_mean(str(gain), CROSSING_GAINS)
            hint = f", did you mean {near!r}?" if near else f"; known: {', '.join(CROSSING_GAINS)}"
            raise MarkError(f"{name}: unknown gain {gain!r}{hint}")
    return tuple(
        Requirement(name, positive(f"{name}[{gain!r}]", value[gain])[0].required, part=gain)
        for gain in CROSSING_GAINS
        if gain in value
    )


def regression(name: str, value: object) -> tuple[Requirement, ...]:
    """``0.05`` for all that the load allows, or ``{'tpot': 0.05, 'acceptance_length': 0.02}``, one requirement each."""
    if not isinstance(value, Mapping):
        return share(name, value)
    example = "{'tpot': 0.05, 'acceptance_length': 0.02}"
    if not value:
        raise MarkError(f"{name}={{}}: needs what may get worse and by how much, such as {example}")
    for part in value:
        if part not in REGRESSIONS:
            near = did_you_mean(str(part), REGRESSIONS)
            hint = f", did you mean {near!r}?" if near else f"; known: {', '.join(REGRESSIONS)}"
            raise MarkError(f"{name}: unknown quantity {part!r}{hint}")
    return tuple(
        Requirement(name, _share(f"{name}[{part!r}]", value[part]), part=part) for part in REGRESSIONS if part in value
    )


def agreement(name: str, value: object) -> tuple[Requirement, ...]:
    """``True``, or ``{'tie_margin': 0.5}``: true with another margin, in nats, than the one that the noise floor gives."""
    if isinstance(value, Mapping):
        for given in value:
            if given != "tie_margin":
                near = did_you_mean(str(given), ("tie_margin",))
                raise MarkError(f"{name}: unknown key {given!r}" + (f", did you mean {near!r}?" if near else ""))
        if not value:
            raise MarkError(f"{name}={{}}: needs True, or {{'tie_margin': 0.5}}")
        (limit,) = positive(f"{name}['tie_margin']", value["tie_margin"])
        return (Requirement(name, 1.0, options=(("tie_margin", limit.required),)),)
    if value is True:
        return (Requirement(name, 1.0),)
    hint = "; None removes an inherited one" if value is False else ""
    raise MarkError(f"{name}={value!r}: needs True, or {{'tie_margin': 0.5}} in nats{hint}")


def shares_by_position(name: str, value: object) -> tuple[Requirement, ...]:
    """``{0: 0.7, 1: 0.5}``: a share for each draft position, counted from 0; one requirement each."""
    if not isinstance(value, Mapping) or not value:
        raise MarkError(f"{name}={value!r}: needs draft positions and shares, such as {{0: 0.7, 1: 0.5}}")
    for position in value:
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise MarkError(f"{name}: {position!r} is no draft position; they are whole numbers and count from 0")
    required = {position: _share(f"{name}[{position}]", value[position]) for position in sorted(value)}
    positions = list(required)
    for earlier, later in itertools.pairwise(positions):
        if required[later] > required[earlier]:
            raise MarkError(
                f"{name}: position {later} needs {required[later]:g}, more than position {earlier} with {required[earlier]:g}; "
                "shares are joint (that position and all before it accepted) and never rise. Are these conditional ones?"
            )
    return tuple(Requirement(name, share, part=str(position)) for position, share in required.items())


def lengths_by_class(name: str, value: object) -> tuple[Requirement, ...]:
    """``1.3`` for every class, or ``{"code": 2.0, "chat": 1.3}``: tokens of a step, one requirement each."""
    return _by_class(length, name, value)


def gains_by_class(name: str, value: object) -> tuple[Requirement, ...]:
    """``0.1`` for every class, or ``{"code": 0.3, "chat": 0.1}``: a fraction of time saved, one requirement each."""
    return _by_class(time_gain, name, value)


def _by_class(parse: Parse, name: str, value: object) -> tuple[Requirement, ...]:
    if not isinstance(value, Mapping):
        return parse(name, value)
    if not value:
        raise MarkError(
            f"{name}={{}}: needs a number for every class, or classes and numbers, such as {{'code': 2.0, 'chat': 1.3}}"
        )
    for part in value:
        if not isinstance(part, str) or not part:
            raise MarkError(
                f"{name}: {part!r} is no class; classes are the names of workloads, or the prompts' categories"
            )
    parsed = {part: parse(f"{name}[{part!r}]", number)[0] for part, number in value.items()}
    return tuple(replace(one, objective=name, part=part) for part, one in parsed.items())


def goodput(name: str, value: object) -> tuple[Requirement, ...]:
    """``{'share': 0.99, 'ttft_ms': 500, 'tpot_ms': 20}``: the share of requests that meet every limit."""
    required, limits = _within_limits(name, value, "share", "how many of the requests must be good", 0.99)
    return (Requirement(name, _share(f"{name}['share']", required), options=limits),)


def goodput_gain(name: str, value: object) -> tuple[Requirement, ...]:
    """``{'gain': 0.1, 'ttft_ms': 500, 'tpot_ms': 20}``: how many more requests meet every limit than in the baseline."""
    gain, limits = _within_limits(name, value, "gain", "by how much the share of good requests must rise", 0.1)
    return tuple(replace(one, objective=name, options=limits) for one in rate_gain(f"{name}['gain']", gain))


def _within_limits(
    name: str, value: object, key: str, meaning: str, such_as: float
) -> tuple[object, tuple[tuple[str, float], ...]]:
    """What a mapping of one threshold and limits holds."""
    example = f"{{{key!r}: {such_as}, 'ttft_ms': 500, 'tpot_ms': 20}}"
    if not isinstance(value, Mapping):
        raise MarkError(f"{name}={value!r}: needs a {key} and limits, such as {example}")
    for given in value:
        if given != key and given not in GOODPUT_LIMITS:
            near = did_you_mean(str(given), (key, *GOODPUT_LIMITS))
            hint = f", did you mean {near!r}?" if near else f"; known: {key}, {', '.join(GOODPUT_LIMITS)}"
            raise MarkError(f"{name}: unknown key {given!r}{hint}")
    if key not in value:
        raise MarkError(f"{name}: {key!r} is missing: {meaning}, such as {example}")
    limits = [(key, positive(f"{name}[{key!r}]", value[key])[0].required) for key in GOODPUT_LIMITS if key in value]
    if not limits:
        raise MarkError(f"{name}: no limit given; name at least one of {', '.join(GOODPUT_LIMITS)}")
    return value[key], tuple(limits)


def _share(name: str, value: object) -> float:
    fraction = number(name, value)
    if not 0 <= fraction <= 1:
        raise MarkError(f"{name}={value}: needs a fraction between 0 and 1{_meant(fraction)}")
    return fraction


def _check_not_percent(name: str, value: object, gain: float) -> None:
    if gain <= -_LARGEST_GAIN:
        raise MarkError(f"{name}={value}: that allows a loss of {-gain:.0%}{_meant(gain)}")


def _meant(value: float, *, speedup: bool = False) -> str:
    if speedup and 1 < value < 2:  # noqa: PLR2004 - nobody writes 1.3 for 1.3 %
        return f"; did you mean {1 - 1 / value:.2g}, which is {value:g} times faster?"
    return f"; did you mean {value / _PERCENT:g}?" if 1 < abs(value) <= _PERCENT else ""
