"""The table of ``--specdec-tune``: predictions beside measurements, what is a guess, and what to put into the config."""

from __future__ import annotations

import json

from pytest_specdec.core.k_advice import Advice, Predicted, Tuning
from pytest_specdec.core.k_choice import KChoice
from pytest_specdec.core.verdict import Estimate
from pytest_specdec.reporting.k_advice import advice_json, advice_lines


def row(k: int, gain: float, *, measured: bool = False) -> Predicted:
    return Predicted(k, 1 + 0.4 * k, 1.1, gain, gain - 0.02, gain + 0.02, extrapolated=k > 3, measured=measured)


ROWS = (row(1, 0.20, measured=True), row(2, 0.31, measured=True), row(3, 0.30, measured=True), row(4, 0.28))
TUNING = Tuning(
    advice=Advice(0.95, ROWS, best=2, recommended=2, pays=True),
    choice=KChoice((1, 2, 3, 4), trained_for=("speculative_tokens", 3)),
    gains={1: Estimate(0.20, 0.19, 0.21), 2: Estimate(0.31, 0.30, 0.32), 3: Estimate(0.30, 0.29, 0.31)},
    foretold={2: row(2, 0.305)},
    speculative_config={"method": "eagle3", "num_speculative_tokens": 2},
)


def test_a_verified_k_shows_what_was_predicted_and_what_was_measured() -> None:
    lines = advice_lines(TUNING)
    assert "2 1.80 +30.5 % (+28.5 .. +32.5) +31.0 %" in [" ".join(line.split()) for line in lines]
    assert "  K = 2 verified: predicted +30.5 %, measured +31.0 %, as predicted" in lines


def test_a_guess_beyond_the_longest_draft_is_marked() -> None:
    assert any(line.split()[:2] == ["4", "2.60*"] for line in advice_lines(TUNING))
    assert any("beyond the longest draft measured" in line for line in advice_lines(TUNING))


def test_the_recommendation_is_a_line_for_the_config() -> None:
    text = "\n".join(advice_lines(TUNING))
    assert "recommended: K = 2 (it gains most)" in text
    assert '"speculative_config": {"method": "eagle3", "num_speculative_tokens": 2}' in text
    assert "trained for 3 tokens (speculative_tokens)" in text


def test_a_prediction_that_did_not_come_true_is_called_so() -> None:
    gains = {**TUNING.gains, 2: Estimate(0.10, 0.09, 0.11)}
    wrong = Tuning(TUNING.advice, TUNING.choice, gains, TUNING.foretold, TUNING.speculative_config)
    assert any("not as predicted" in line for line in advice_lines(wrong))


def test_without_a_k_that_pays_there_is_no_line_for_the_config() -> None:
    none = Tuning(Advice(0.95, ROWS, best=2, recommended=None, pays=False), TUNING.choice, TUNING.gains)
    text = "\n".join(advice_lines(none))
    assert "no K pays" in text
    assert "speculative_config" not in text


def test_json_holds_every_row() -> None:
    data = json.loads(advice_json(TUNING))
    assert data["recommended"] == 2
    assert [one["k"] for one in data["table"]] == [1, 2, 3, 4]
    assert data["table"][1]["foretold_tpot_gain"] == 0.305
