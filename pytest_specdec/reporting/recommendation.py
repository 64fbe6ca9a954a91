"""The advice at the end of a run, as text that fits 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pytest_specdec.core.advice import shown
from pytest_specdec.core.procedure import Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.recommendation import Recommendation

_WIDTH = 80
_AGAINST = ("is below", "less than", "to reach")
"""Words before a threshold in an advice."""


def advice_lines(recommendations: Iterable[Recommendation], thresholds: Thresholds | None = None) -> list[str]:
    """One paragraph for every config and workload; where one names a threshold of the advice, a last one about those.

    Args:
        recommendations: In the order to be shown.
        thresholds: That they were made with, where these are not the default ones.
    """
    texts = [f"advice for {one.config_id}, {one.workload}: {one.text}" for one in recommendations]
    limits = thresholds or Thresholds()
    gain, length = shown(limits.tpot_gain, "fraction"), shown(limits.acceptance_length, "tokens")
    if any(f"{words} {limit}" in text for text in texts for words in _AGAINST for limit in (gain, length)):
        texts.append(
            f"the advice's own thresholds, not those of your tests: TPOT gain {gain}, acceptance length {length}; "
            "--specdec-acceptance tpot_gain=0.2 (or acceptance_length=1.3) sets another"
        )
    return [line for text in texts for line in _wrapped(text)]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
