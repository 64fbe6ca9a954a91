"""Values in ``env`` and ``serve`` with which vLLM would exit, and keys that nearly are flags."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.config_rules import rule_problems

SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 4}


def problems(**envelope: Any) -> list[tuple[str, str, str]]:
    found = rule_problems({"speculative_config": SPECULATIVE, **envelope})
    return [
        (problem.severity, ".".join(map(str, problem.keys)), f"{problem.what}. {problem.remedy}") for problem in found
    ]


@pytest.mark.parametrize("value", ["4GB", "four", "", "4.5"])
def test_a_number_with_a_unit_is_an_error(value: str) -> None:
    ((severity, where, words),) = problems(env={"VLLM_CPU_KVCACHE_SPACE": value})
    assert (severity, where) == ("error", "env.VLLM_CPU_KVCACHE_SPACE")
    assert "Write the number alone, without a unit" in words


def test_a_variable_that_is_read_only_when_needed_is_a_warning() -> None:
    ((severity, where, _),) = problems(env={"VLLM_TRACE_FUNCTION": "yes"})
    assert (severity, where) == ("warning", "env.VLLM_TRACE_FUNCTION")


def test_numbers_and_texts_where_they_belong_are_fine() -> None:
    assert (
        problems(env={"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_ENGINE_READY_TIMEOUT_S": 60, "VLLM_LOGGING_LEVEL": "x"})
        == []
    )


@pytest.mark.parametrize(
    ("value", "meant"), [("yes", "true"), ("False", "false"), ("maybe", "true or false"), (1, "true")]
)
def test_a_switch_that_is_given_a_value_is_an_error(value: object, meant: str) -> None:
    ((severity, where, words),) = problems(serve={"enforce_eager": value})
    assert (severity, where) == ("error", "serve.enforce_eager")
    assert f"Write {meant}, without quotes" in words


@pytest.mark.parametrize(("value", "meant"), [("bf16", "bfloat16"), ("FP16", "float16"), ("bfloat_16", "bfloat16")])
def test_a_dtype_by_another_name_is_an_error(value: str, meant: str) -> None:
    ((severity, where, words),) = problems(serve={"dtype": value})
    assert (severity, where) == ("error", "serve.dtype")
    assert f"did you mean {meant}? vLLM would exit." in words.replace("?.", "?")


def test_the_dtypes_of_vllm_are_fine() -> None:
    assert problems(serve={"dtype": "bfloat16"}) == problems(serve={"dtype": "auto"}) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max_modellen", "max_model_len"),
        ("max_model_lenght", "max_model_len"),
        ("enforce_eagre", "enforce_eager"),
        ("gpu_memory_utilisation", "gpu_memory_utilization"),
    ],
)
def test_a_slip_in_a_common_flag_is_a_warning(key: str, meant: str) -> None:
    ((severity, where, words),) = problems(serve={key: 1024})
    assert (severity, where) == ("warning", f"serve.{key}")
    assert f"did you mean {meant}?" in words


@pytest.mark.parametrize(
    "key",
    [
        "max_num_partial_prefills",
        "max_long_partial_prefills",
        "tp",
        "tokenizer_revision",
        "code_revision",
        "enable_dbo",
        "disable_log_stats",
        "max_num_batched_tokens",
        "generation_config",
        "mamba_block_size",
        "max_loras",
        "max_seq_len_to_capture",
        "enable_lora_bias",
        "kv_cache_dtype_skip_layers",
        "prefix_caching_hash_algo",
        "max_cudagraph_capture_size",
        "enable_eplb",
        "num_gpu_blocks_override",
        "data_parallel_rank",
        "data_parallel_size_local",
        "kv_cache_metrics",
        "max_lora_rank",
        "reasoning_config",
    ],
)
def test_other_flags_of_vllm_are_no_slips(key: str) -> None:
    assert [words for _, _, words in problems(serve={key: 1}) if "did you mean" in words] == []
