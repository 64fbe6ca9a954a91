from __future__ import annotations

import pytest

from pytest_specdec.core.suggest import did_you_mean

KNOWN = ("min_acceptance_length", "min_acceptance_rate", "tpot_gain", "ttft_gain", "lossless")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("min_acceptance_lenght", "min_acceptance_length"),
        ("acceptance_rate", "min_acceptance_rate"),
        ("tpot-gain", "tpot_gain"),
        ("TPOT_GAIN", "tpot_gain"),
        ("tpot gain", "tpot_gain"),
        ("losless", "lossless"),
    ],
)
def test_a_near_miss_finds_the_name_that_was_meant(word: str, meant: str) -> None:
    assert did_you_mean(word, KNOWN) == meant


@pytest.mark.parametrize("word", ["", "x", "temperature"])
def test_nothing_is_suggested_where_nothing_is_near(word: str) -> None:
    assert did_you_mean(word, KNOWN) is None


def test_the_suggestion_is_spelt_as_the_known_name_is() -> None:
    assert did_you_mean("speculative_config", ["speculative-config"]) == "speculative-config"


def test_a_higher_cutoff_suggests_less() -> None:
    assert did_you_mean("speculative_model", ["speculative_config"]) == "speculative_config"
    assert did_you_mean("speculative_model", ["speculative_config"], cutoff=0.82) is None
