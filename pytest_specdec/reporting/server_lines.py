"""How the two servers really ran: what vLLM changed by itself, and in what they differ besides speculation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.server_facts import changed_by_vllm, differences_of

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison


def server_lines(comparison: Comparison) -> list[str]:
    """One line for each change and one for the differences; none where there is nothing to say."""
    changed = changed_by_vllm(comparison.servers)
    baseline, specdec = changed.get("baseline", ()), changed.get("specdec", ())
    lines = [f"vLLM changed, on both sides: {sentence}" for sentence in baseline if sentence in specdec]
    lines += [f"vLLM changed, on the baseline only: {sentence}" for sentence in baseline if sentence not in specdec]
    lines += [
        f"vLLM changed, on the speculating side only: {sentence}" for sentence in specdec if sentence not in baseline
    ]
    differing = "; ".join(differences_of(comparison.servers))
    return [*lines, *([f"differs besides speculation: {differing}"] if differing else [])]
