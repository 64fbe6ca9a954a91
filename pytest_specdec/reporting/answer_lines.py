"""What was found out about sampled answers, and about answers that went wrong as answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specdec.core.distributions import DistributionComparison
    from pytest_specdec.core.samples import Comparison


def defect_lines(comparison: Comparison) -> list[str]:
    """``answers (specdec / baseline): 3.1 / 0.0 % loop, 25.0 / 25.0 % are cut at max_tokens``; nothing where all is well.

    Answers that are cut or call a tool are shown beside other kinds only, or where the servers differ in them: most loads cut some.
    """
    from pytest_specdec.core.degenerate import ORDINARY, defects_of

    found = [one for one in defects_of(comparison) if one.baseline or one.specdec]
    if not any(one.significant or one.name not in ORDINARY for one in found):
        return []
    kinds = ", ".join(f"{100 * one.specdec:.1f} / {100 * one.baseline:.1f} % {one.name}" for one in found)
    return [f"answers (specdec / baseline): {kinds}"]


def sampled_lines(comparison: Comparison) -> list[str]:
    """What the tests of sampled answers say, and what they say of the baseline alone; empty where nothing was sampled."""
    from pytest_specdec.core.sampled_lossless import shift_text

    sampled = comparison.sampled
    if sampled is None:
        return []
    found = sampled.speculation
    asked = f"{found.samples[0]} answers of {found.prompts} prompts on each server, {sampled.tokens} tokens each"
    return [
        f"sampled outputs at temperature {sampled.temperature:g}: {asked}, {sampled.concurrency} at a time",
        f"  specdec against baseline: {shift_text(sampled)}; {_p_values(found)}",
        f"  baseline against itself: {_p_values(sampled.calibration)}",
    ]


def _p_values(comparison: DistributionComparison) -> str:
    """``p corrected: token 0 1.00, ..., sequences 0.43``."""
    return "p corrected: " + ", ".join(f"{test.name} {_p(test.corrected)}" for test in comparison.tests)


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"  # noqa: PLR2004 - as printed
