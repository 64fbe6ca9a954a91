"""The settings that two servers really run with, and in what they differ besides speculation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specdec.core.samples import Arm, ServerRecord

_OWN = ("host", "port", "uds", "served_model_name", "model_tag")
"""Arguments that every server has for itself, or has under another name."""
_SHOWN_AS = {"kv_cache_memory_bytes": "KV cache tokens"}
"""Arguments of which nobody need be told where both logs say what came of them."""
_SPECULATION = re.compile(r"speculative_|spec_(?:method|model|tokens)$|per_request_spec_decode_metrics$")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class ServerFacts:
    """What a server's log says of its settings; whatever it does not say is absent."""

    arguments: dict[str, str] = field(default_factory=dict)
    """vLLM's "non-default args", each value as Python prints it; secrets masked."""
    effective: dict[str, str] = field(default_factory=dict)
    """What came out of them, by a readable name: ``dtype``, ``KV cache tokens``, ``attention backend``, ..."""


def differences(baseline: ServerFacts, specdec: ServerFacts) -> tuple[str, ...]:
    """What is not the same on both sides though it is no speculation: ``dtype bfloat16 against float16``, baseline first.

    An argument that one side does not give has its default there. An effective setting counts only where both logs tell it.
    """
    return (
        *_differing_arguments(baseline, specdec),
        *_differing_settings(baseline.effective, specdec.effective),
    )


def differences_of(servers: Sequence[ServerRecord]) -> tuple[str, ...]:
    """The :func:`differences` of the last server of each arm; empty where a log was not read or did not tell."""
    facts: dict[Arm, ServerFacts] = {server.arm: server.facts for server in servers if server.facts is not None}
    if "baseline" not in facts or "specdec" not in facts:
        return ()
    return differences(facts["baseline"], facts["specdec"])


def changed_by_vllm(servers: Sequence[ServerRecord]) -> dict[Arm, tuple[str, ...]]:
    """What vLLM changed by itself on each side, over all of the side's servers; only sides where it changed something."""
    changed: dict[Arm, tuple[str, ...]] = {}
    for server in servers:
        if server.changed_by_vllm:
            changed[server.arm] = tuple(dict.fromkeys((*changed.get(server.arm, ()), *server.changed_by_vllm)))
    return changed


def _differing_arguments(baseline: ServerFacts, specdec: ServerFacts) -> Iterator[str]:
    if not baseline.arguments or not specdec.arguments:
        return
    shown = {*baseline.effective} & {*specdec.effective}
    for name in sorted({*baseline.arguments, *specdec.arguments}):
        if name in _OWN or _SPECULATION.match(name) or _SHOWN_AS.get(name) in shown:
            continue
        sides = baseline.arguments.get(name, "default"), specdec.arguments.get(name, "default")
        if sides[0] != sides[1]:
            yield f"{name} {sides[0]} against {sides[1]}"


def _differing_settings(baseline: Mapping[str, str], specdec: Mapping[str, str]) -> Iterator[str]:
    for name, value in baseline.items():
        other = specdec.get(name)
        if other is not None and value != other:
            yield f"{name} {value} against {other}{_change(value, other)}"


def _change(value: str, other: str) -> str:
    """`` (-3.3 %)`` for two numbers."""
    if not (_NUMBER.fullmatch(value) and _NUMBER.fullmatch(other)):
        return ""
    before, after = (float(text.replace(",", "")) for text in (value, other))
    return f" ({100 * (after / before - 1):+.1f} %)" if before else ""
