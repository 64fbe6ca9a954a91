"""What the shape of a config cannot say: rules within and between its other keys.

Every rule looks at the data as written and keeps quiet about parts of the wrong type, which the shape reports, so that all
errors of a file come at once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.env_values import number_problem
from pytest_specdec.core.flag_values import flag_value_problems
from pytest_specdec.core.load_spec import LOAD_FIELDS
from pytest_specdec.core.serve_rules import Problem, command_problems, serve_problems
from pytest_specdec.core.workload_rules import workload_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specdec.core.places import KeyPath

_WEIGHT_TOLERANCE = 1e-3
_UNSET_BY_US = ("VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR")


def rule_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything that the rules find in an envelope (``speculative-config`` already spelt with an underscore)."""
    yield from speculation_problems(data.get("speculative_config"), given="speculative_config" in data)
    for key, value in data.items():
        if key != "speculative_config":
            yield from _nulls((key,), value)
    for key in ("serve", "serve_specdec"):
        if data.get(key) is not None:
            yield from serve_problems(key, data[key])
        if isinstance(data.get(key), dict):
            yield from flag_value_problems(key, data[key])
    yield from command_problems(data)
    yield from _env_problems(data)
    yield from _device_problems(data)
    if isinstance(data.get("measure"), dict):
        yield from _condition_problems(("measure",), data["measure"])
    yield from _load_problems(data.get("load"))
    yield from _weight_problems(data.get("workloads"))
    yield from workload_problems(data.get("workloads"))


def speculation_problems(value: Any, *, given: bool) -> Iterator[Problem]:
    """Whether there is a speculative config at all; what is inside is vLLM's to judge."""
    keys = ("speculative_config",)
    example = 'Such as {"method": "ngram", "num_speculative_tokens": 4}.'
    if not given:
        yield Problem(keys, "is missing: without it there is nothing to compare", example)
    elif value is None:
        yield Problem(keys, "is null: vLLM would start without speculation", example)
    elif isinstance(value, str):
        yield Problem(
            keys, "is a text, and an object is needed", "Remove the quotes around it." if "{" in value else example
        )
    elif not isinstance(value, dict):
        yield Problem(keys, f"must be an object, not {shown(value)}", example)
    elif not value:
        yield Problem(keys, "is empty: it says nothing about how to speculate", example)


def _nulls(keys: KeyPath, value: Any) -> Iterator[Problem]:
    if value is None:
        yield Problem(keys, "is null, which says nothing", "Leave the key out, or give it a value.")
    elif isinstance(value, dict) and not (keys[0] in ("serve", "serve_specdec") and len(keys) > 1):
        for key, inner in value.items():
            yield from _nulls((*keys, key), inner)


def _env_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    env = data.get("env")
    if env is None:
        return
    if not isinstance(env, dict):
        yield Problem(("env",), "must be an object of names and values", "Such as {VLLM_LOGGING_LEVEL: DEBUG}.")
        return
    for name, value in env.items():
        keys = ("env", name)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield Problem(keys, "is not the name of an environment variable")
        elif isinstance(value, bool) or not isinstance(value, str | int | None):
            yield Problem(
                keys, "must be text or a whole number", "Put the value in quotes, as the program shall see it."
            )
        elif name in _UNSET_BY_US:
            yield Problem(keys, "must not be set: it makes two servers collide, so the plugin unsets it", "Remove it.")
        elif name == "CUDA_VISIBLE_DEVICES" and data.get("devices") is not None:
            yield Problem(keys, "contradicts `devices`, which sets this variable for each server", "Keep one of them.")
        elif name == "VLLM_ENABLE_V1_MULTIPROCESSING" and str(value) == "0":
            yield Problem(keys, "0 keeps vLLM from drafting at all", "Remove it.", "warning")
        elif (problem := number_problem(keys, name, value)) is not None:
            yield problem


def _device_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    devices = data.get("devices")
    baseline, specdec = (devices.get("baseline"), devices.get("specdec")) if isinstance(devices, dict) else (None, None)
    if not isinstance(baseline, list) or not isinstance(specdec, list) or not baseline or not specdec:
        return
    for arm, side in (("baseline", baseline), ("specdec", specdec)):
        if len({*map(str, side)}) < len(side):
            yield Problem(("devices", arm), "names a device twice")
    if len(baseline) != len(specdec):
        what = f"gives one server {len(baseline)} and the other {len(specdec)} devices: not the same work"
        yield Problem(("devices",), what, "Give both the same number.")
    if data.get("placement") == "split" and not {*map(str, baseline)}.isdisjoint({*map(str, specdec)}):
        yield Problem(
            ("devices",), "shares a device, and `placement: split` gives each server its own", "Separate them."
        )


def _load_problems(points: Any) -> Iterator[Problem]:
    for name, point in points.items() if isinstance(points, dict) else ():
        if not isinstance(point, dict):
            continue
        rates = {"request_rate", "concurrency"} & point.keys()
        if len(rates) != 1:
            what = "has both request_rate and concurrency" if rates else "has neither request_rate nor concurrency"
            remedy = (
                "request_rate is an open loop (arrivals per second), concurrency a closed one (requests in flight)."
            )
            yield Problem(("load", name), f"{what}; exactly one is needed", remedy)
        if "load" in point:
            yield Problem(("load", name, "load"), "cannot stand here: a named load does not name another", "Remove it.")
        yield from _condition_problems(("load", name), point)


def _condition_problems(keys: KeyPath, values: Mapping[str, Any]) -> Iterator[Problem]:
    """The bounds that marks have too, in the same words."""
    faults = 0
    for name, value in values.items():
        wanted = LOAD_FIELDS[name](value) if name in LOAD_FIELDS and value is not None else None
        if wanted:
            faults += 1
            yield Problem((*keys, name), f"needs {wanted}, not {shown(value)}")
    rounds, max_rounds = values.get("rounds"), values.get("max_rounds")
    if not faults and rounds is not None and max_rounds is not None and rounds > max_rounds:
        yield Problem((*keys, "rounds"), f"is {rounds}, above max_rounds, {max_rounds}")


def _weight_problems(workloads: Any) -> Iterator[Problem]:
    entries = (
        {name: entry for name, entry in workloads.items() if isinstance(entry, dict)}
        if isinstance(workloads, dict)
        else {}
    )
    weights = {name: entry["weight"] for name, entry in entries.items() if entry.get("weight") is not None}
    if not weights or not all(
        isinstance(weight, int | float) and not isinstance(weight, bool) for weight in weights.values()
    ):
        return
    without = [name for name in entries if name not in weights]
    total = sum(weights.values())
    if without:
        what = f"have a weight for {', '.join(weights)} and none for {', '.join(without)}"
        yield Problem(("workloads",), what, "Give every workload its share, or none.")
    elif abs(total - 1) > _WEIGHT_TOLERANCE:
        yield Problem(
            ("workloads",), f"have weights that sum to {total:g}", "They are shares of production traffic and sum to 1."
        )


def shown(value: Any) -> str:
    """A value of the file as a message quotes it."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:60]}..."'  # noqa: PLR2004 - a line of a terminal
    return (
        {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool) or value is None else f"{value}"
    )
