"""A measured step in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.advice import shown, with_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.verdict import Verdict


def verdict_words(verdicts: Sequence[Verdict]) -> str:
    """``ok: min_acceptance_length 2.31 (2.20 .. 2.43), required 1.50``, for every objective."""
    return "; ".join(map(_words, verdicts)) or "nothing was demanded"


def _words(verdict: Verdict) -> str:
    measured = with_interval(verdict.estimate, verdict.unit)
    required = shown(verdict.requirement.required, verdict.unit)
    return f"{verdict.outcome}: {verdict.requirement.label} {measured}, required {required}"
