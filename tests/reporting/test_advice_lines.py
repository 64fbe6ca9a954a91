"""The advice at the end of a run: its thresholds are explained once, where it names them."""

from __future__ import annotations

import pytest

from pytest_specdec.core.procedure import Thresholds
from pytest_specdec.core.recommendation import Recommendation
from pytest_specdec.reporting.recommendation import advice_lines

WEIGH = Recommendation("ngram", "chat", "weigh", "TPOT gain 1.8 %: less than 30.0 %, so weigh it against its upkeep")
OTHERS = (
    Recommendation("eagle3", "chat", "unsure", "TPOT gain 20.2 % (-7.8 .. 41.0 %) is not proven to reach 30.0 %"),
    Recommendation("eagle3", "code", "stop", "acceptance length 1.31 is below 1.50"),
)


def told(*advice: Recommendation, thresholds: Thresholds | None = None) -> str:
    return " ".join(" ".join(advice_lines(advice, thresholds)).split())


@pytest.mark.parametrize("one", [WEIGH, *OTHERS])
def test_an_advice_that_names_a_threshold_says_whose_it_is_and_how_to_change_it(one: Recommendation) -> None:
    assert "thresholds, not those of your tests: TPOT gain 30.0 %, acceptance length 1.50;" in told(one)
    assert "--specdec-acceptance tpot_gain=0.2 (or acceptance_length=1.3) sets another" in told(one)


def test_it_is_said_once() -> None:
    assert told(WEIGH, *OTHERS).count("thresholds") == 1


def test_it_names_the_thresholds_that_hold() -> None:
    one = Recommendation("ngram", "chat", "weigh", "TPOT gain 1.8 %: less than 20.0 %, so weigh it")
    assert "TPOT gain 20.0 %, acceptance length 1.30;" in told(one, thresholds=Thresholds(1.3, 0.2))


def test_an_advice_without_a_threshold_needs_no_explanation() -> None:
    enabled = Recommendation("ngram", "chat", "enable", "TPOT gain 41.0 % (38.1 .. 43.9 %), acceptance length 3.10")
    assert "thresholds" not in told(enabled)
    assert told() == ""
