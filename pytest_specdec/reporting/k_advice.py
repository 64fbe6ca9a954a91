"""The table of ``--specdec-tune`` in words: every K, what it should gain, what it did gain, and the line for the config."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.k_advice import Advice, Predicted, Tuning


def advice_lines(tuning: Tuning) -> list[str]:
    """The table, how predictions came true, and the recommendation."""
    return [
        f"  {'K':>2}  {'predicted AL':>12}  {'predicted TPOT gain':>27}  {'measured':>8}",
        *(_row(row, tuning) for row in tuning.advice.predicted),
        *_notes(tuning.advice),
        *_verified(tuning),
        *_recommendation(tuning),
    ]


def advice_json(tuning: Tuning) -> str:
    """The same for programs; fractions are fractions."""
    advice = tuning.advice
    data = {
        "confidence": advice.level,
        "recommended": advice.recommended,
        "best": advice.best,
        "pays": advice.pays,
        "speculative_config": dict(tuning.speculative_config) or None,
        "table": [
            {
                "k": row.k,
                "acceptance_length": row.acceptance_length,
                "step_ratio": row.step_ratio,
                "tpot_gain": row.gain,
                "low": row.low,
                "high": row.high,
                "extrapolated": row.extrapolated,
                "measured": row.measured,
                "foretold_tpot_gain": tuning.foretold[row.k].gain if row.k in tuning.foretold else None,
            }
            for row in advice.predicted
        ],
    }
    return json.dumps(data, indent=1, allow_nan=False)


def _row(row: Predicted, tuning: Tuning) -> str:
    gains, foretold = tuning.gains, tuning.foretold
    if row.measured and row.k not in foretold:
        shown, length = "-", f"{row.acceptance_length:.2f} "
    else:
        told = foretold.get(row.k, row)
        mark = "*" if told.extrapolated else " "
        shown = f"{100 * told.gain:+5.1f} %  ({100 * told.low:+5.1f} .. {100 * told.high:+5.1f})"
        length = f"{told.acceptance_length:.2f}{mark}"
    found = f"{100 * gains[row.k].value:+5.1f} %" if row.k in gains else ""
    return f"  {row.k:>2}  {length:>12}  {shown:>27}  {found:>8}".rstrip()


def _notes(advice: Advice) -> Iterator[str]:
    yield f"  in brackets: {100 * advice.level:g} % interval; AL of a measured K without a prediction is the measured one"
    if any(row.extrapolated for row in advice.predicted):
        yield "  * beyond the longest draft measured: acceptance of its last position is taken to hold for the later ones"


def _verified(tuning: Tuning) -> Iterator[str]:
    for k, told in tuning.foretold.items():
        found = tuning.gains[k]
        low, high = found.low, found.high
        fits = (high is None or high >= told.low) and (low is None or low <= told.high)
        verdict = (
            "as predicted"
            if fits
            else "not as predicted: the step cost is not linear in K here; trust what was measured"
        )
        yield f"  K = {k} verified: predicted {100 * told.gain:+.1f} %, measured {100 * found.value:+.1f} %, {verdict}"


def _recommendation(tuning: Tuning) -> Iterator[str]:
    advice, choice = tuning.advice, tuning.choice
    k = advice.recommended
    if k is None:
        yield "  no K pays: each of them would make this load slower; speculate less, or with a cheaper draft"
        return
    from pytest_specdec.core.k_advice import GIVEN_AWAY

    why = "it gains most" if k == advice.best else f"the smallest within {100 * GIVEN_AWAY:.0f} points of the best"
    yield f"  recommended: K = {k} ({why})"
    if not advice.pays:
        yield "  that it pays at all is not proven: its interval holds 0; more rounds or requests would tell"
    if beyond := choice.beyond_training(k):
        yield f"  note: {beyond}"
    elif choice.trained_for is not None:
        key, steps = choice.trained_for
        yield f"  the draft was trained for {steps} tokens ({key}); a larger K asks it for more than that"
    yield f'  "speculative_config": {json.dumps(dict(tuning.speculative_config))}'
