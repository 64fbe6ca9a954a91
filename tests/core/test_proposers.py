"""Which way to propose suits a target, from its files, the draft's and its answers."""

from __future__ import annotations

from typing import Any

from pytest_specdec.core.draft_facts import ModelFacts
from pytest_specdec.core.proposers import proposer_advice

TARGET = ModelFacts("target", architectures=("LlamaForCausalLM",), model_type="llama", layers=30, vocab_size=49152)
EAGLE3 = ModelFacts("draft", architectures=("LlamaForCausalLMEagle3",), layers=1, draft_vocab_size=8192)


def advice(**given: Any) -> list[str]:
    settings: dict[str, Any] = {"method": None, "target": TARGET, "draft": None, "repetition": None, "threshold": 0.3}
    return proposer_advice(**(settings | given))


def test_mtp_layers_of_the_target_need_no_second_model() -> None:
    target = ModelFacts("t", architectures=("MiMoForCausalLM",), mtp=True, own_k=("num_nextn_predict_layers", 1))
    lines = advice(method="mtp", target=target)
    assert lines[0] == "method mtp"
    assert lines[1].startswith("mtp: the target has MTP layers of its own")


def test_eagle3_weights_speak_for_eagle3() -> None:
    lines = advice(method="eagle3", draft=EAGLE3)
    assert lines[:2] == ["method eagle3", f"eagle3: draft is an eagle3 draft ({EAGLE3.telling})"]


def test_a_small_model_of_the_family_is_a_draft_model() -> None:
    small = ModelFacts("small", architectures=("LlamaForCausalLM",), model_type="llama", layers=6, vocab_size=49152)
    assert (
        advice(method="draft_model", draft=small)[1]
        == "draft_model: small is a model of its own, of the target's family"
    )


def test_a_draft_model_as_deep_as_the_target_is_hardly_small() -> None:
    big = ModelFacts("big", architectures=("LlamaForCausalLM",), model_type="llama", layers=28, vocab_size=49152)
    assert "with 28 layers against 30 it is hardly small enough to pay" in advice(method="draft_model", draft=big)[1]


def test_another_vocabulary_is_another_family() -> None:
    other = ModelFacts("other", architectures=("LlamaForCausalLM",), model_type="llama", layers=6, vocab_size=32000)
    assert "another family or vocabulary" in advice(method="draft_model", draft=other)[1]


def test_repetition_speaks_for_lookup() -> None:
    lines = advice(method="ngram", repetition=0.42)
    assert lines[:2] == [
        "method ngram",
        "ngram: 42 % of the answers' words could be looked up in prompt and answer; suffix, likewise",
    ]


def test_a_lookup_without_repetition_is_warned_about() -> None:
    lines = advice(method="ngram", repetition=0.05)
    assert lines[0] == "method ngram: nothing found here speaks for it"
    assert lines[-1] == "only 5 % of the answers' words could be looked up: ngram will seldom draft right"


def test_suffix_is_spoken_for_by_the_same_repetition() -> None:
    assert advice(method="suffix", repetition=0.42)[0] == "method suffix"


def test_a_target_that_is_not_here_is_said() -> None:
    assert "the target's files are not here" in advice(target=None)[-1]
