from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config_form import form_of
from pytest_specdec.core.config_text import ConfigText

if TYPE_CHECKING:
    from pathlib import Path

# All of vLLM 0.32's keys, and some of older versions.
VLLM_KEYS = [
    "acceptance_method",
    "attention_backend",
    "code_revision",
    "disable_by_batch_size",
    "disable_eagle_block_drop",
    "disable_logprobs",
    "disable_mqa_scorer",
    "disable_padded_drafter_batch",
    "draft_load_config",
    "draft_sample_method",
    "draft_tensor_parallel_size",
    "dspark_draft_topk",
    "enable_adaptive_verification",
    "enforce_eager",
    "index_share_for_mtp_iteration",
    "kv_cache_dtype",
    "max_model_len",
    "method",
    "moe_backend",
    "ngram_prompt_lookup_max",
    "num_speculative_tokens",
    "num_speculative_tokens_per_batch_size",
    "parallel_drafting",
    "posterior_alpha",
    "posterior_threshold",
    "prompt_lookup_max",
    "prompt_lookup_min",
    "quantization",
    "rejection_sample_method",
    "revision",
    "speculative_model",
    "speculative_token_tree",
    "suffix_decoding_max_cached_requests",
    "suffix_decoding_max_spec_factor",
    "suffix_decoding_max_tree_depth",
    "suffix_decoding_min_token_prob",
    "synthetic_acceptance_length",
    "synthetic_acceptance_rate",
    "synthetic_acceptance_rates",
    "target_model_config",
    "target_parallel_config",
    "tensor_parallel_size",
    "use_heterogeneous_vocab",
    "use_local_argmax_reduction",
]


def text(data: Any) -> ConfigText:
    return ConfigText("c.json", data, {})


@pytest.mark.parametrize("key", VLLM_KEYS)
@pytest.mark.parametrize("hyphens", [False, True])
def test_no_key_of_vllm_is_taken_for_a_mistyped_key_of_the_envelope(key: str, hyphens: bool) -> None:  # noqa: FBT001 - a parameter of the test
    form, problems = form_of(text({"method": "m", key.replace("_", "-") if hyphens else key: 1}))
    assert problems == []
    assert form is not None
    assert form.bare


@pytest.mark.parametrize("key", ["serve", "env", "measure", "speculative_config", "speculative-config", "stop_command"])
def test_one_key_that_only_envelopes_have_makes_an_envelope(key: str) -> None:
    form, problems = form_of(text({key: {}}))
    assert problems == []
    assert form is not None
    assert not form.bare
    assert list(form.data) == [key.replace("-", "_")]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("speculative_confg", "speculative_config"),
        ("Speculative_Config", "speculative_config"),
        ("speculativeconfig", "speculative_config"),
        ("serve-specdec", "serve_specdec"),
        ("workload", "workloads"),
        ("startup_timeout", "startup_timeout_s"),
        ("comand", "command"),
        ("placment", "placement"),
    ],
)
def test_a_near_miss_of_an_envelopes_key_is_refused_before_model_can_be_misread(key: str, meant: str) -> None:
    form, (problem,) = form_of(text({"model": "m", key: "x"}))
    assert form is None
    assert problem.keys == (key,)
    assert problem.remedy.startswith(f"Did you mean {meant!r}? ")
    assert "target or the draft" in problem.remedy


@pytest.mark.parametrize("key", ["speculative", "spec", "decoding"])
def test_a_speculative_config_under_another_name_is_refused(key: str) -> None:
    form, (problem,) = form_of(text({"model": "m", key: {"method": "ngram"}}))
    assert form is None
    assert "speculative_config" in problem.remedy


def test_model_alone_could_be_either_and_is_refused() -> None:
    form, (problem,) = form_of(text({"model": "m"}))
    assert form is None
    assert "draft" in problem.what
    assert "target" in problem.what


def test_both_spellings_at_once_are_refused() -> None:
    form, (problem,) = form_of(text({"speculative_config": {"method": "a"}, "speculative-config": {"method": "b"}}))
    assert form is None
    assert problem.keys == ("speculative-config",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "would start without speculation"),
        ([], "must be an object, not an empty list"),
        ([{"method": "ngram"}], "must be an object, not a list"),
        ({}, "is empty"),
        ("ngram", "is a text"),
        ('{"method": "ngram"}', "is a text"),
        (3, "must be an object, not 3"),
        (True, "must be an object, not true"),
    ],
)
def test_a_file_that_holds_no_object_is_refused_with_what_it_holds(data: Any, words: str) -> None:
    form, (problem,) = form_of(text(data))
    assert form is None
    assert problem.what.startswith("the config ")
    assert words in problem.what


def test_json_inside_quotes_is_recognised() -> None:
    _, (problem,) = form_of(text('{"method": "ngram"}'))
    assert problem.remedy == "Remove the quotes around it."


def test_keys_are_named_as_the_file_has_them() -> None:
    bare, _ = form_of(text({"method": "ngram"}))
    spelt, _ = form_of(text({"speculative-config": {"method": "ngram"}}))
    plain, _ = form_of(text({"speculative_config": {"method": "ngram"}}))
    keys = ("speculative_config", "method")
    assert [form.as_written(keys) for form in (bare, spelt, plain) if form] == [
        ("method",),
        ("speculative-config", "method"),
        ("speculative_config", "method"),
    ]


def test_a_place_is_found_under_the_files_own_name(tmp_path: Path) -> None:
    from pytest_specdec.core.config_text import read_config_text

    (tmp_path / "c.json").write_text('{"method": "ngram"}')
    form, _ = form_of(read_config_text(tmp_path / "c.json"))
    assert form is not None
    assert form.where(("speculative_config", "method")).endswith("c.json:1:2: method")
