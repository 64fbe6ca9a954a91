"""Local drafts against method and target: shapes as real checkpoints have them, and the fields quoted that say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.draft_facts import model_facts
from pytest_specdec.core.draft_rules import Pair, pair_problems
from pytest_specdec.core.vllm_versions import ANY, EVERY, Versions, exactly

TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
}
SIZES = {"vocab_size": 128256, "hidden_size": 4096, "max_position_embeddings": 8192}
EAGLE1 = SIZES | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
EAGLE3 = SIZES | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32000}
SMALL = SIZES | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 16, "hidden_size": 2048}
SPECULATORS = {
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "transformer_layer_config": SIZES | {"model_type": "llama", "num_hidden_layers": 1},
    "speculators_config": {"proposal_methods": [{"speculative_tokens": 3}], "verifier": {"name_or_path": "org/target"}},
}
MTP = TARGET | {"architectures": ["MiMoForCausalLM"], "num_nextn_predict_layers": 1}
MEDUSA = {"medusa_num_heads": 5, "medusa_num_layers": 1, "hidden_size": 4096}


def said(
    method: str | None,
    draft: dict[str, Any] | None,
    *flags: str,
    target: dict[str, Any] | None = TARGET,
    versions: Versions = EVERY,
    k: int | None = 3,
    generation: dict[str, Any] | None = None,
    **keys: Any,
) -> list[tuple[str, str]]:
    config: dict[str, Any] = {"method": method} if method else {}
    config |= keys
    config |= {"model": "./draft"} if draft is not None else {}
    config |= {"num_speculative_tokens": k} if k is not None else {}
    pair = Pair(
        config=config,
        k=k,
        target=model_facts("./target", target, generation or {}) if target is not None else None,
        draft=model_facts("./draft", draft, {}) if draft is not None else None,
        flags=flags,
        versions=versions,
    )
    return [(problem.severity, f"{problem.what}. {problem.remedy}") for problem in pair_problems(pair)]


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("eagle", EAGLE1),
        ("eagle3", EAGLE3),
        ("eagle3", SPECULATORS),
        ("draft_model", SMALL),
        ("mtp", MTP),
        ("medusa", MEDUSA),
        (None, EAGLE3),
    ],
)
def test_a_draft_for_the_method_and_the_target_draws_no_remark(method: str | None, draft: dict[str, Any]) -> None:
    assert said(method, draft, k=1 if draft is MTP else 3) == []


@pytest.mark.parametrize(
    ("method", "draft", "words", "remedy"),
    [
        ("eagle", EAGLE3, '"architectures": ["LlamaForCausalLMEagle3"]', '"method": "eagle3"'),
        ("eagle3", EAGLE3 | {"architectures": ["EagleLlamaForCausalLM"]}, "an eagle draft", '"method": "eagle"'),
        ("eagle3", SMALL, '"num_hidden_layers": 16', '"method": "draft_model"'),
        ("eagle", SMALL, '"num_hidden_layers": 16', '"method": "draft_model"'),
        ("eagle", SPECULATORS, '"speculators_model_type": "eagle3"', '"method": "eagle3"'),
        ("draft_model", EAGLE3, "which needs a model of its own", '"method": "eagle3"'),
        ("draft_model", SPECULATORS, '"speculators_model_type": "eagle3"', '"method": "eagle3"'),
        ("mtp", SMALL, "a model of its own", '"method": "draft_model"'),
        ("eagle3", MEDUSA, '"medusa_num_heads": 5', '"method": "medusa"'),
        ("medusa", EAGLE3, "an eagle3 draft, and the method is medusa", '"method": "eagle3"'),
        ("eagle3", EAGLE3 | {"architectures": ["DFlashDraftModel"]}, "a dflash draft", '"method": "dflash"'),
        ("eagle3", SIZES | {"model_type": "mlp_speculator"}, "mlp_speculator", '"method": "mlp_speculator"'),
    ],
)
def test_a_draft_of_another_kind_is_an_error_that_names_its_method(
    method: str, draft: dict[str, Any], words: str, remedy: str
) -> None:
    ((severity, text),) = said(method, draft)
    assert severity == "error"
    assert "config.json of ./draft says" in text
    assert words in text
    assert remedy in text


def test_a_model_with_mtp_layers_as_a_draft_model_is_taken_for_mtp() -> None:
    ((severity, text),) = said("draft_model", MTP, k=1)
    assert severity == "warning"
    assert '"num_nextn_predict_layers": 1' in text


@pytest.mark.parametrize(
    ("target", "severity"), [(TARGET, "error"), (TARGET | {"model_type": "brand_new"}, "warning"), (MTP, None)]
)
def test_mtp_without_a_draft_needs_a_target_with_mtp_layers(target: dict[str, Any], severity: str | None) -> None:
    found = said("mtp", None, target=target)
    assert [s for s, _ in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("method", "draft", "words"),
    [
        (
            "draft_model",
            SMALL | {"vocab_size": 32000},
            '"vocab_size": 32000, and that of the target ./target says 128256',
        ),
        ("eagle3", EAGLE3 | {"vocab_size": 32000}, '"vocab_size": 32000'),
        ("eagle3", EAGLE3 | {"draft_vocab_size": 200000}, '"draft_vocab_size": 200000, more than the target has'),
        (
            "eagle",
            EAGLE1 | {"hidden_size": 2048},
            '"hidden_size": 2048, and that of the target ./target "hidden_size": 4096',
        ),
        ("eagle3", EAGLE3 | {"target_hidden_size": 5120}, '"target_hidden_size": 5120'),
    ],
)
def test_a_draft_for_another_target_is_an_error_that_quotes_the_sizes(
    method: str, draft: dict[str, Any], words: str
) -> None:
    ((severity, text),) = said(method, draft)
    assert severity == "error"
    assert words in text


def test_a_draft_smaller_than_its_target_is_fine_where_it_says_which_target_it_is_for() -> None:
    assert said("eagle3", EAGLE3 | {"hidden_size": 2048, "target_hidden_size": 4096}) == []


def test_another_vocabulary_is_fine_where_vllm_is_told_to_translate() -> None:
    draft = SMALL | {"vocab_size": 32000}
    assert said("draft_model", draft, use_heterogeneous_vocab=True) == []
    assert "use_heterogeneous_vocab" in said("draft_model", draft)[0][1]
    assert "use_heterogeneous_vocab" not in said("draft_model", draft, versions=exactly("0.24.0") or ANY)[0][1]


def test_a_multimodal_target_has_its_sizes_one_level_below() -> None:
    target = {"architectures": ["XForConditionalGeneration"], "text_config": TARGET}
    ((_, text),) = said("eagle3", EAGLE3 | {"hidden_size": 2048}, target=target)
    assert '"hidden_size": 4096' in text


@pytest.mark.parametrize(
    ("flags", "keys", "severity", "words"),
    [
        ((), {}, "warning", "below 8192 (max_position_embeddings of the target ./target)"),
        (("--max-model-len", "4096"), {}, "warning", "below 4096 (max_model_len in `serve`)"),
        (("--max-model-len", "2048"), {}, None, ""),
        (("--max-model-len", "2048"), {"max_model_len": 4096}, "error", "is 4096, and config.json of ./draft"),
    ],
)
def test_a_draft_shorter_than_the_target_is_told(
    flags: tuple[str, ...], keys: dict[str, Any], severity: str | None, words: str
) -> None:
    found = said("eagle3", EAGLE3 | {"max_position_embeddings": 2048}, *flags, **keys)
    assert [s for s, _ in found] == ([severity] if severity else [])
    assert all(words in text for _, text in found)


@pytest.mark.parametrize(
    ("draft", "method", "k", "severity", "words"),
    [
        (SPECULATORS, "eagle3", 5, "warning", '"speculative_tokens": 3: it was trained for 3'),
        (SPECULATORS, "eagle3", None, None, ""),
        (EAGLE3, "eagle3", None, "error", "K is missing"),
        (SMALL, "draft_model", None, "error", "has no n_predict, block size or speculators format"),
        (MTP, "mtp", None, None, ""),
        (MTP, "mtp", 2, "warning", '"num_nextn_predict_layers": 1'),
        (EAGLE1 | {"n_predict": 2}, "eagle", 3, "error", "must be divisible"),
        (EAGLE1 | {"n_predict": 2}, "eagle", 4, "warning", "trained for 2"),
        (MEDUSA, "medusa", 6, "error", '"medusa_num_heads": 5'),
    ],
)
def test_k_fits_what_the_draft_was_trained_for(
    draft: dict[str, Any], method: str, k: int | None, severity: str | None, words: str
) -> None:
    found = said(method, draft, k=k)
    assert [s for s, _ in found] == ([severity] if severity else [])
    assert all(words in text for _, text in found)


@pytest.mark.parametrize(
    ("version", "refused"), [("0.25.0", False), ("0.26.0", True), ("0.27.1", True), ("0.28.0", False)]
)
def test_dspark_refused_fewer_tokens_than_a_block_in_two_releases(version: str, refused: bool) -> None:  # noqa: FBT001 - a table's column
    draft = SIZES | {"architectures": ["Qwen3DSparkModel"], "dspark_block_size": 7}
    found = said("dspark", draft, versions=exactly(version) or ANY)
    assert bool(found) is refused


@pytest.mark.parametrize(
    ("versions", "severity"),
    [(exactly("0.21.0") or ANY, "error"), (exactly("0.22.0") or ANY, None), (EVERY, None), (ANY, "warning")],
)
def test_a_format_of_speculators_needs_the_release_that_reads_it(versions: Versions, severity: str | None) -> None:
    found = said("eagle3", SPECULATORS | {"speculators_model_type": "peagle"}, versions=versions)
    assert [s for s, _ in found] == ([severity] if severity else [])


def test_a_targets_own_defaults_for_requests_may_not_be_what_speculation_refuses() -> None:
    ((severity, text),) = said("eagle3", None, generation={"min_p": 0.05})
    assert severity == "error"
    assert '"min_p": 0.05' in text
    assert said("eagle3", None, "--generation-config", "vllm", generation={"min_p": 0.05}) == []
    assert said("eagle3", None, "--override-generation-config.min_p", "0", generation={"min_p": 0.05}) == []
    assert said("eagle3", None, generation={"min_p": 0}) == []
