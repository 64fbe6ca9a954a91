"""Live traffic as text: the verdicts, what was read of both arms, and what to bear in mind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.reporting.layout import WIDE, fitted
from pytest_specdec.reporting.verdict_table import remark_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.live_window import LiveArm, LiveWindow
    from pytest_specdec.core.verdict import Verdict

_MINUTE = 60


def live_lines(
    window: LiveWindow, verdicts: Sequence[Verdict], notes: Sequence[str], *, width: int = WIDE
) -> list[str]:
    """All of it in so many columns; the table as in failures."""
    levels = [verdict.estimate.level for verdict in verdicts if verdict.estimate.level is not None]
    length = f"{window.window_s / _MINUTE:g} minutes" if window.window_s >= _MINUTE else f"{window.window_s:g} seconds"
    lines = [
        *table_lines(verdicts, confidence=max(levels, default=0.95), width=width),
        *(f"  {line}" for line in remark_lines(verdicts)),
        f"  baseline   {_arm(window.baseline)}",
        f"  specdec    {_arm(window.specdec)}",
        f"  the last {length}, intervals over slices of it",
        *(f"  note: {note}" for note in notes),
    ]
    return fitted(lines, width)


def _arm(arm: LiveArm) -> str:
    parts = [f"{arm.total('finished_requests'):.0f} requests"]
    for name, of, per in (("TPOT", "tpot_sum_s", "tpot_count"), ("TTFT", "ttft_sum_s", "ttft_count")):
        mean_s = arm.mean(of, per)
        if mean_s is not None:
            parts.append(f"{name} {1000 * mean_s:.2f} ms on average")
    if arm.total("drafts"):
        parts.append(f"acceptance length {1 + arm.total('accepted_tokens') / arm.total('drafts'):.2f}")
    return "   ".join([*parts, arm.selector])
