"""Which Ks can be tried: methods without a K, heads that come in sets, and drafts that were trained for fewer tokens."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.draft_facts import ModelFacts
from pytest_specdec.core.k_choice import k_choice


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"method": "suffix"}, "no K to choose"),
        ({"method": "medusa", "num_speculative_tokens": 3}, "fixed set of heads"),
        ({"method": "dflash"}, "a block at once"),
        (
            {"method": "eagle3", "num-speculative-tokens-per-batch-size": [[1, 8, 3]]},
            "makes K depend on the batch",
        ),
    ],
)
def test_some_methods_have_no_k(config: dict[str, Any], reason: str) -> None:
    choice = k_choice(config, 3, None, None)
    assert choice.candidates == ()
    assert reason in choice.refusal


def test_an_unstated_method_is_told_by_the_draft() -> None:
    assert "a block at once" in k_choice({}, None, ModelFacts("d", speculators="dflash"), None).refusal


@pytest.mark.parametrize(("stated", "probes"), [(3, (1, 3)), (5, (1, 5)), (1, (1, 4)), (None, (1, 4)), (12, (1, 12))])
def test_one_token_and_the_configs_own_k_are_measured_first(stated: int | None, probes: tuple[int, int]) -> None:
    assert k_choice({"method": "eagle3"}, stated, None, None).probes(stated) == probes


def test_heads_that_come_in_sets_allow_multiples_only() -> None:
    target = ModelFacts("t", own_k=("num_nextn_predict_layers", 3), mtp=True)
    choice = k_choice({"method": "mtp"}, 3, None, target)
    assert choice.candidates == (3, 6)
    assert choice.probes(3) == (3, 6)


def test_a_larger_k_than_the_draft_was_trained_for_is_said() -> None:
    choice = k_choice({"method": "eagle3"}, 3, ModelFacts("d", own_k=("speculative_tokens", 3)), None)
    assert choice.beyond_training(3) == ""
    assert "trained for 3 (speculative_tokens)" in choice.beyond_training(5)


def test_made_up_acceptance_offers_as_many_positions_as_it_has_rates_for() -> None:
    made_up = {
        "method": "eagle3",
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.7, 0.5, 0.3],
    }
    assert k_choice(made_up, 3, None, None).candidates == (1, 2, 3)
    assert "too few positions" in k_choice({**made_up, "synthetic_acceptance_rates": [0.7]}, 1, None, None).refusal


def test_a_made_up_length_is_no_ground_for_a_k() -> None:
    made_up = {"method": "eagle3", "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0}
    assert "is the same for every K" in k_choice(made_up, 3, None, None).refusal
