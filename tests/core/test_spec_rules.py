"""Rules between the keys of a speculative config, each with the nearest config that it lets pass."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.spec_check import speculative_problems
from pytest_specdec.core.vllm_versions import exactly

NGRAM: dict[str, Any] = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
DRAFT: dict[str, Any] = {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 3}


def said(config: dict[str, Any], *flags: str, version: str = "0.33.0") -> list[tuple[str, str]]:
    versions = exactly(version)
    assert versions is not None
    return [(p.severity, f"{p.what}. {p.remedy}") for p in speculative_problems(config, versions, flags=flags)]


def only(config: dict[str, Any], *flags: str) -> tuple[str, str]:
    (one,) = said(config, *flags)
    return one


@pytest.mark.parametrize(
    ("config", "severity", "words"),
    [
        ({"num_speculative_tokens": 3}, "error", "names neither a method nor a model"),
        ({"model": "org/draft", "num_speculative_tokens": 3}, "note", "method: auto"),
        ({"method": "eagle3", "num_speculative_tokens": 3}, "error", "eagle3 needs a model"),
        ({"method": "draft_model", "num_speculative_tokens": 3}, "error", "draft_model needs a model"),
        ({"method": "custom_class", "num_speculative_tokens": 3}, "error", "dotted path of a class"),
        (
            {"method": "custom_class", "model": "org/x", "num_speculative_tokens": 3},
            "error",
            "is no dotted path",
        ),
        (NGRAM | {"model": "org/x"}, "warning", "is not looked at: ngram drafts without a model"),
        ({"method": "extract_hidden_states", "num_speculative_tokens": 1}, "warning", "drafts nothing"),
    ],
)
def test_who_drafts_is_clear(config: dict[str, Any], severity: str, words: str) -> None:
    found = only(config)
    assert found[0] == severity
    assert words in found[1]


@pytest.mark.parametrize(
    "config",
    [NGRAM, DRAFT, {"method": "mtp", "num_speculative_tokens": 1}, {"method": "custom_class", "model": "a.B", "num_speculative_tokens": 1}],
)  # fmt: skip
def test_a_config_that_says_what_is_needed_draws_no_remark(config: dict[str, Any]) -> None:
    assert said(config) == []


@pytest.mark.parametrize(
    ("config", "severity", "words"),
    [
        ({"method": "ngram_gpu", "prompt_lookup_min": 2, "prompt_lookup_max": 4}, "error", "K is missing"),
        ({"model": "ngram"}, "error", "num_speculative_tokens is required for ngram"),
        ({"method": "suffix", "suffix_decoding_max_tree_depth": 8}, "note", "K defaults to the tree depth, 8"),
        ({"method": "mtp"}, "warning", "only where `model` is given as well"),
        ({"method": "eagle3", "model": "org/draft"}, "note", "K is left to the draft"),
        ({"method": "eagle3", "model": "org/d", "k": 3}, "error", "did you mean num_speculative_tokens?"),
    ],
)
def test_k_is_stated_or_said_where_it_comes_from(config: dict[str, Any], severity: str, words: str) -> None:
    assert any(found == severity and words in text for found, text in said(config))


@pytest.mark.parametrize(
    ("window", "severity", "words"),
    [
        ({}, "note", "it becomes 5..5"),
        ({"prompt_lookup_max": 9}, "warning", "prompt_lookup_min becomes 9 too"),
        ({"prompt_lookup_min": 3}, "warning", "prompt_lookup_max becomes 3 too"),
        ({"prompt_lookup_min": 5, "prompt_lookup_max": 2}, "error", "prompt_lookup_min 5 > prompt_lookup_max 2"),
    ],
)
@pytest.mark.parametrize("method", ["ngram", "ngram_gpu"])
def test_the_window_of_an_ngram_method(method: str, window: dict[str, int], severity: str, words: str) -> None:
    found = only({"method": method, "num_speculative_tokens": 3, **window})
    assert found[0] == severity
    assert words in found[1]


@pytest.mark.parametrize(
    ("config", "severity", "words"),
    [
        (DRAFT | {"prompt_lookup_max": 3}, "warning", "it is for ngram, ngram_gpu"),
        (NGRAM | {"suffix_decoding_max_tree_depth": 3}, "warning", "it is for suffix"),
        (NGRAM | {"kv_cache_dtype": "fp8"}, "warning", "is not looked at by ngram"),
        (DRAFT | {"dspark_draft_topk": 3}, "error", "works with dspark only"),
        (DRAFT | {"enable_adaptive_verification": True}, "error", "works with dspark only"),
        (DRAFT | {"method": "eagle3", "use_heterogeneous_vocab": True}, "error", "works with draft_model only"),
        (DRAFT | {"index_share_for_mtp_iteration": True}, "error", "works with mtp only"),
        (
            DRAFT | {"use_heterogeneous_vocab": True, "draft_sample_method": "probabilistic"},
            "error",
            "must be greedy beside use_heterogeneous_vocab",
        ),
    ],
)
def test_keys_of_another_method_are_told(config: dict[str, Any], severity: str, words: str) -> None:
    found = only(config)
    assert found[0] == severity
    assert words in found[1]


@pytest.mark.parametrize(
    "config", [NGRAM | {"suffix_decoding_max_tree_depth": 24}, DRAFT | {"use_heterogeneous_vocab": False}]
)
def test_a_default_of_another_method_does_no_harm(config: dict[str, Any]) -> None:
    assert said(config) == []


@pytest.mark.parametrize(
    ("method", "draft", "flags", "words"),
    [
        ("draft_model", 2, ("--tensor-parallel-size", "4"), "must be 4"),
        ("draft_model", 1, ("-tp", "2"), "must be 2"),
        ("draft_model", 2, (), "must be 1"),
        ("eagle3", 2, ("--tensor_parallel_size=4",), "must be 1 or 4"),
        ("eagle3", 2, (), "must be 1:"),
        ("draft_model", 4, ("-tp", "4"), None),
        ("eagle3", 1, ("-tp", "4"), None),
    ],
)
def test_the_drafts_parallelism_fits_the_targets(
    method: str, draft: int, flags: tuple[str, ...], words: str | None
) -> None:
    found = said(DRAFT | {"method": method, "draft_tensor_parallel_size": draft}, *flags)
    assert [severity for severity, _ in found] == (["error"] if words else [])
    assert all((words or "") in text for _, text in found)


def test_a_method_that_is_null_is_one_that_is_left_out() -> None:
    assert [severity for severity, _ in said({"method": None, "num_speculative_tokens": 3})] == ["warning", "error"]


def test_the_drafts_length_fits_the_targets() -> None:
    assert "above the target's max_model_len" in only(DRAFT | {"max_model_len": 9000}, "--max-model-len", "8192")[1]
    assert only(DRAFT | {"max_model_len": 100}, "--max-model-len", "8192")[0] == "warning"
    assert said(DRAFT | {"max_model_len": 8192}, "--max-model-len", "8192") == []


@pytest.mark.parametrize(
    ("schedule", "severity", "words"),
    [
        ([[1, 8, 3], [9, 64, 0]], None, ""),
        ([[9, 64, 0], [1, 8, 3]], None, ""),
        ([], "error", "must be a list of [start, end, K]"),
        ([[1, 8]], "error", "must be [start, end, K], not a list"),
        ([1, 8, 3], "error", "must be [start, end, K], not 1"),
        ([[1, "8", 3]], "error", "must hold whole numbers"),
        ([[0, 8, 3]], "error", "batch sizes count from 1"),
        ([[8, 1, 3]], "error", "starts at 8 and ends at 1"),
        ([[1, 8, -1]], "error", "at least 0"),
        ([[2, 8, 3]], "error", "must start at 1"),
        ([[1, 8, 3], [8, 9, 2]], "error", "overlap: 1..8 and 8..9"),
        ([[1, 8, 3], [12, 16, 2]], "warning", "a gap: batch sizes 9..11 keep the K before it, 3"),
        ([[1, 8, 5]], "warning", "cut to num_speculative_tokens, 3"),
    ],
)
def test_a_schedule_covers_batch_sizes_from_1_on(schedule: Any, severity: str | None, words: str) -> None:
    found = said(DRAFT | {"num_speculative_tokens_per_batch_size": schedule})
    assert [s for s, _ in found] == ([severity] if severity else [])
    assert all(words in text for _, text in found)


def test_a_schedule_is_off_with_data_parallelism() -> None:
    config = DRAFT | {"num_speculative_tokens_per_batch_size": [[1, 8, 3]]}
    assert "silently off" in only(config, "--data-parallel-size", "2")[1]
    assert said(config, "-dp", "1") == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rejection_sample_method": "synthetic"}, "exactly one of"),
        (
            {
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_length": 2,
                "synthetic_acceptance_rates": [0.5, 0.2, 0.1],
            },
            "exactly one of",
        ),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 4.5}, "at most K + 1 = 4"),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5]}, "has 1 entries, and K is 3"),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5, 0.6, 0.1]}, "rises"),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [1.5, 0.6, 0.1]}, "from 0 to 1"),
        ({"synthetic_acceptance_length": 2}, "for synthetic acceptance only"),
        ({"rejection_sample_method": "standard", "synthetic_acceptance_rates": [0.5, 0.2, 0.1]}, "only"),
    ],
)
def test_synthetic_acceptance_needs_one_target_that_is_possible(keys: dict[str, Any], words: str) -> None:
    errors = [text for severity, text in said(DRAFT | keys) if severity == "error"]
    assert len(errors) == 1
    assert words in errors[0]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2}, "acceptance is made up"),
        ({"rejection_sample_method": "fly"}, "fly is lossy"),
        ({"fly_window_size": 1}, "with rejection_sample_method fly only"),
    ],
)
def test_a_verification_that_changes_what_can_be_judged_is_labelled(keys: dict[str, Any], words: str) -> None:
    found = only(DRAFT | keys)
    assert found[0] == "warning"
    assert words in found[1]


@pytest.mark.parametrize(("k", "window", "words"), [(1, None, "at least 2"), (3, 3, "must be smaller than")])
def test_fly_needs_a_window_within_the_draft(k: int, window: int | None, words: str) -> None:
    config = DRAFT | {"num_speculative_tokens": k, "rejection_sample_method": "fly"}
    config |= {"fly_window_size": window} if window else {}
    assert any(severity == "error" and words in text for severity, text in said(config))
