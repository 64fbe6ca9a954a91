"""Rules between the keys of a workload's entry in a config.

They look at the data as written and keep quiet about parts of the wrong type, which the shape reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.workload_options import is_on_hub

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOLERANCE = 1e-3
_OF_SAMPLES = ("by", "shares", "seed")
_OF_DATASETS = ("split", "subset")
_CONTENT = ("prompt", "messages", "conversations", "turns")


def workload_problems(workloads: Any) -> Iterator[Problem]:
    """What the entries say that has no effect or contradicts itself."""
    for name, entry in workloads.items() if isinstance(workloads, dict) else ():
        if isinstance(entry, dict):
            yield from _entry_problems(("workloads", name), entry)


def _entry_problems(keys: tuple[str, str], entry: Mapping[str, Any]) -> Iterator[Problem]:
    stated = {key for key, value in entry.items() if value is not None}
    if "sample" in stated and entry.get("multi_turn") == "own":
        what = "draws prompts one by one, and `multi_turn: own` needs whole conversations"
        yield Problem(
            (*keys, "sample"), what, "Leave it out: num_requests takes whole conversations, in an order of its seed."
        )
    if "sample" not in stated:
        for key in stated.intersection(_OF_SAMPLES):
            yield Problem((*keys, key), "has no effect without `sample`", "Such as `sample: 300`.")
    if not is_on_hub(entry.get("path")):
        for key in stated.intersection(_OF_DATASETS):
            yield Problem((*keys, key), "belongs to a dataset on the hub, and `path` is none", "Such as hf:owner/name.")
    yield from _share_problems((*keys, "shares"), entry.get("shares"))
    columns = entry.get("columns")
    content = [key for key in _CONTENT if columns.get(key) is not None] if isinstance(columns, dict) else []
    if len(content) > 1:
        what = f"maps both {content[0]} and {content[1]}: which one is to be sent?"
        yield Problem((*keys, "columns"), what, "Keep one of them.")


def _share_problems(keys: tuple[str, ...], shares: Any) -> Iterator[Problem]:
    if not isinstance(shares, dict) or not shares or not all(map(_is_number, shares.values())):
        return
    total = sum(shares.values())
    if abs(total - 1) > _TOLERANCE:
        yield Problem(keys, f"sum to {total:g}", "They are shares of the sample and sum to 1.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
