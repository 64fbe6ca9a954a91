"""What the comparison of answers found, as a block of the failure and of ``pytest-specdec show``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_specdec.core.outputs import divergences, noise_floor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.outputs import Divergence, OutputPair, Outputs
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Verdict

_MOST_SHOWN = 5
_MOST_POSITIONS = 8


def output_lines(comparison: Comparison, verdicts: Sequence[Verdict] = ()) -> list[str]:
    """One fact a line; empty where answers were not compared.

    Args:
        comparison: What was measured.
        verdicts: One that states a tie margin of its own has it used here, too.
    """
    outputs = comparison.outputs
    if outputs is None:
        return []
    stated = [nats for verdict in verdicts for name, nats in verdict.requirement.options if name == "tie_margin"]
    margin = min(stated, default=outputs.tie_margin_nats)
    floor = noise_floor(outputs.pairs)
    lines = [
        f"outputs {outputs.under_load}: {_counts(outputs.of('speculation', 'load'), margin)}",
        *(
            f"outputs one at a time: {_counts(alone, margin)}"
            for alone in (outputs.of("speculation", "alone"),)
            if alone
        ),
        (
            f"noise floor, baseline {outputs.under_load} against baseline {outputs.otherwise}: "
            f"equal {floor.compared - floor.differing} of {floor.compared}{_repeated(outputs)}"
        ),
        f"tie margin {margin:.2f} nats ({'as stated' if stated else outputs.tie_margin_basis}); compared by {outputs.source}",
    ]
    found = divergences(outputs.pairs, margin)
    for divergence in found[:_MOST_SHOWN]:
        lines += divergence_lines(divergence, outputs)
    if len(found) > _MOST_SHOWN:
        lines.append(f"and {len(found) - _MOST_SHOWN} more prompts with hard divergences")
    if outputs.kept is not None:
        lines.append(
            f"prompts, answers and runnable requests: {outputs.kept} in the result folder, readable by you alone"
        )
    return lines


def _counts(pairs: Sequence[OutputPair], margin: float) -> str:
    """``equal 61 of 64, 2 near ties (at token 12, 40; up to 0.11 nats), 1 hard divergence``."""
    differing = [pair for pair in pairs if not pair.equal]
    ties = [pair for pair in differing if pair.margin_nats is not None and not pair.is_hard(margin)]
    hard = [pair for pair in differing if pair.is_hard(margin)]
    parts = [f"equal {len(pairs) - len(differing)} of {len(pairs)}"]
    if ties:
        widest = max(pair.margin_nats or 0.0 for pair in ties)
        parts.append(f"near ties {len(ties)} (at token {_positions(ties)}; up to {widest:.2f} nats)")
    if unknown := len(differing) - len(ties) - len(hard):
        parts.append(f"not told apart {unknown}")
    parts.append(f"hard divergences {len(hard)}")
    return ", ".join(parts)


def _positions(pairs: Iterable[OutputPair]) -> str:
    positions = sorted({pair.first_difference for pair in pairs if pair.first_difference is not None})
    shown = ", ".join(map(str, positions[:_MOST_POSITIONS]))
    return f"{shown}, ..." if len(positions) > _MOST_POSITIONS else shown


def _repeated(outputs: Outputs) -> str:
    again = outputs.of("baseline", "load")
    return f"; the same load again: equal {sum(pair.equal for pair in again)} of {len(again)}" if again else ""


def divergence_lines(divergence: Divergence, outputs: Outputs) -> list[str]:
    """One hard divergence, and how both answers go on where that may be shown."""
    least = "more than " if divergence.margin_is_least else ""
    margin = (
        "one answer stops there, without an end token"
        if math.isinf(divergence.margin_nats)
        else f"{least}{divergence.margin_nats:.2f} nats"
    )
    whose = {
        "specdec": "the speculating server's token is the unlikely one",
        "baseline": "the baseline's token is the unlikely one",
        "both": "both tokens are unlikely",
    }[divergence.by]
    seen = [
        f"{found} of {tried} {where}"
        for (found, tried), where in ((divergence.under_load, outputs.under_load), (divergence.alone, "one at a time"))
        if tried
    ]
    verdict = "repeats" if divergence.repeats else "did not repeat"
    lines = [
        (
            f"hard divergence: prompt {divergence.prompt}, token {divergence.position}, {margin}, {whose}; {verdict} "
            f"(in {', '.join(seen)})"
        )
    ]
    if divergence.texts is not None:
        lines += [f"    baseline goes on  {divergence.texts[0]!r}", f"    specdec goes on   {divergence.texts[1]!r}"]
    return lines
