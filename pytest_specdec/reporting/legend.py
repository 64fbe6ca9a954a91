"""What the short headings of tables mean: one line below them, about those headings only that are there."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WIDTH = 80
_KEEPS_TOGETHER = "\u00a0=\u00a0"
_MEANINGS = {
    "AL": (r"\bAL\b", "acceptance length, tokens that a step with a draft yields (1 + accepted)"),
    "tok/step": (r"\btok/step\b", "the same over all steps"),
    "faster": (r"\bfaster$", "baseline TPOT / speculating TPOT"),
    "KV lost": (r"\bKV lost\b", "share of the baseline's KV cache that the draft takes"),
    "start": (r"\bstart$", "seconds until the speculating server answered"),
    "-": (r"(?:^| ) -(?: {2}|$)", "not measured"),
}
"""What is shown, how it is found in a line of a table, and what it is."""


def legend_lines(table: Iterable[str]) -> list[str]:
    """``legend: AL = acceptance length, ...``, wrapped; empty where nothing is abbreviated.

    Args:
        table: Lines of tables alone: sentences may hold the same words.
    """
    lines = [line.rstrip() for line in table]
    found = {name: meaning for name, (pattern, meaning) in _MEANINGS.items() if _in_any(pattern, lines)}
    # A heading stays beside the first word about it.
    told = "; ".join(f"{name} = {meaning}".replace(" = ", _KEEPS_TOGETHER) for name, meaning in found.items())
    wrapped = textwrap.wrap(f"legend: {told}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False) if told else []
    return [line.replace(_KEEPS_TOGETHER, " = ") for line in wrapped]


def _in_any(pattern: str, lines: Iterable[str]) -> bool:
    return any(re.search(pattern, line) for line in lines)
