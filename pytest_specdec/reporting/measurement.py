"""What was measured, below the table of verdicts: both servers, acceptance, the cost of a step, and the conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.acceptance import EVERY_STEP
from pytest_specdec.reporting.answer_lines import defect_lines, sampled_lines
from pytest_specdec.reporting.course import placement_lines
from pytest_specdec.reporting.output_lines import output_lines
from pytest_specdec.reporting.server_lines import server_lines
from pytest_specdec.reporting.verdict_table import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.acceptance import Acceptance
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import ArmSummary, Summary
    from pytest_specdec.core.verdict import Verdict

_UNKNOWN = "-"
_WHOLE = 0.005
"""Mean tokens per draft this close to a whole number are shown as one."""


def measurement_lines(comparison: Comparison, summary: Summary, verdicts: Sequence[Verdict] = ()) -> list[str]:
    """All of it, one fact a line, not indented.

    Args:
        comparison: What was measured.
        summary: Its figures.
        verdicts: A required TPOT gain among them is translated into what it needs.
    """
    gains = [verdict.requirement.required for verdict in verdicts if verdict.requirement.objective == "tpot_gain"]
    return [
        *_arm_lines(summary),
        *_acceptance_lines(summary),
        *_step_lines(summary, max(gains, default=0.0)),
        *sampled_lines(comparison),
        *defect_lines(comparison),
        *output_lines(comparison, verdicts),
        conditions(comparison),
        *placement_lines(comparison),
        *(f"note: {note}" for note in comparison.notes),
        *(f"we changed, {_side(change)}" for change in comparison.changes),
        *server_lines(comparison),
    ]


def figure_lines(summary: Summary) -> list[str]:
    """Both servers and acceptance alone, likewise."""
    return [*_arm_lines(summary), *_acceptance_lines(summary)]


def _side(change: str) -> str:
    return change if change.startswith("on ") else f"on both sides: {change}"


def conditions(comparison: Comparison) -> str:
    """``workload chat, 4 rounds of 64 requests at concurrency 8, alternating; NVIDIA H200, vllm 0.26.0``."""
    rounds = "1 round" if comparison.rounds == 1 else f"{comparison.rounds} rounds"
    grouped = comparison.placement is not None and any(block.grouped for block in comparison.placement.blocks)
    alternating = "" if comparison.rounds <= 1 else ", in blocks" if grouped else ", alternating"
    versions = dict.fromkeys(server.version for server in comparison.servers if server.version)
    where = [part for part in (comparison.device, *(f"vllm {version}" for version in versions)) if part]
    load = f"workload {comparison.workload.name}, {rounds} of {comparison.load.describe()}{alternating}"
    return f"{load}; {', '.join(where)}" if where else load


def speedup_text(speedup: float | None) -> str:
    """``1.27x``: how many times faster per token; below 1 it is slower."""
    return _UNKNOWN if speedup is None else f"{speedup:.2f}x"


def _arm_lines(summary: Summary) -> list[str]:
    arms = (summary.baseline, summary.specdec)
    cells = [
        _milliseconds("TPOT", [arm.tpot_s for arm in arms], decimals=2),
        _milliseconds("TTFT p95", [arm.ttft_p95_s for arm in arms], decimals=0),
        _throughput(arms),
    ]
    ends = ["", _per_token(summary.speedup)]
    lines = []
    for index, name in enumerate(("baseline", "specdec ")):
        line = "   ".join([name, *(column[index] for column in cells if column)])
        lines.append(f"{line}{ends[index]}")
    failed = {name: arm.failed for name, arm in (("baseline", arms[0]), ("specdec", arms[1])) if arm.failed}
    if failed:
        counts = ", ".join(f"{count} of {name}" for name, count in failed.items())
        lines.append(f"failed requests, left out: {counts}")
    return lines


def _per_token(speedup: float | None) -> str:
    if speedup is None:
        return ""
    if speedup >= 1:
        return f"    {speedup:.2f}x faster per token"
    return f"    {1 / speedup:.2f}x slower per token"


def _milliseconds(name: str, values_s: Sequence[float | None], *, decimals: int) -> list[str]:
    if all(value is None for value in values_s):
        return []
    # Short times get the digits that long ones do not need.
    if decimals == 0 and max(value for value in values_s if value is not None) < 0.1:  # noqa: PLR2004 - 100 ms
        decimals = 1
    shown = [_UNKNOWN if value is None else f"{1000 * value:.{decimals}f}" for value in values_s]
    width = max(map(len, shown))
    return [f"{name} {text:>{width}} ms" for text in shown]


def _throughput(arms: Sequence[ArmSummary]) -> list[str]:
    values = [arm.throughput_tok_s for arm in arms]
    if all(value is None for value in values):
        return []
    shown = [_UNKNOWN if value is None else f"{value:.0f}" for value in values]
    width = max(map(len, shown))
    return [f"{text:>{width}} tok/s" for text in shown]


def _acceptance_lines(summary: Summary) -> list[str]:
    acceptance = summary.acceptance
    if acceptance is None:
        return ["acceptance unknown: the speculating server counts no drafts"]
    if acceptance.acceptance_length is None:
        return ["no step drafted: acceptance is undefined"]
    figures = [f"acceptance length {acceptance.acceptance_length:.2f}"]
    if acceptance.acceptance_rate is not None:
        figures.append(f"acceptance rate {100 * acceptance.acceptance_rate:.1f} %")
    if summary.tokens_per_step is not None:
        figures.append(f"{summary.tokens_per_step:.2f} tokens per step")
    return [*_position_lines(acceptance, summary), ", ".join(figures)]


def _position_lines(acceptance: Acceptance, summary: Summary) -> list[str]:
    if acceptance.per_position is None or acceptance.conditional is None:
        return []
    drafting = [text for text in (_drafted(summary.drafted_per_draft), _coverage(summary.draft_coverage)) if text]
    remark = f"   ({', '.join(drafting)})" if drafting else ""
    return [
        f"accepted by draft position (joint)         {_positions(acceptance.per_position)}{remark}",
        f"                           (conditional)   {_positions(acceptance.conditional)}",
    ]


def _positions(shares: Sequence[float | None]) -> str:
    cells = (_UNKNOWN.ljust(4) if share is None else f"{share:.2f}" for share in shares)
    return "   ".join(f"{position}: {cell}" for position, cell in enumerate(cells)).rstrip()


def _drafted(per_draft: float | None) -> str:
    if per_draft is None:
        return ""
    nearest = round(per_draft)
    return f"{nearest} drafted" if abs(per_draft - nearest) < _WHOLE else f"{per_draft:.2f} drafted on average"


def _coverage(coverage: float | None) -> str:
    if coverage is None:
        return ""
    return "every step drafts" if coverage >= EVERY_STEP else f"{100 * coverage:.0f} % of the steps draft"


def _step_lines(summary: Summary, gain: float) -> list[str]:
    ratio = summary.step_ratio
    if ratio is None:
        return []
    length = summary.break_even_acceptance_length
    if length is not None:
        break_even = f"break-even at acceptance length {length:.2f}"
        needed = summary.acceptance_length_for_gain(gain)
    else:
        break_even = f"break-even at {ratio:.2f} tokens per step"
        needed = summary.tokens_per_step_for_gain(gain)
    aim = f", a {percent(gain)} gain needs {needed:.2f}" if gain > 0 and needed is not None else ""
    return [f"a speculative step costs {ratio:.2f} plain steps: {break_even}{aim}"]
