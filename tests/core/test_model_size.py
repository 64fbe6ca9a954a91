"""The estimate of a model's weights against parameter counts that their makers publish."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.model_size import estimated_weights_bytes

LLAMA_8B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
QWEN3_30B_A3B = {
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "vocab_size": 151936,
    "dtype": "bfloat16",
}
SMOLLM2_135M = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("config", "gigabytes"),
    [
        (LLAMA_8B, 16.06),
        (LLAMA_8B | {"quantization_config": {"quant_method": "fp8"}}, 8.03),
        (LLAMA_8B | {"quantization_config": {"bits": 4}}, 4.015),
        (LLAMA_8B | {"torch_dtype": "float32"}, 32.12),
        ({"text_config": LLAMA_8B, "vision_config": {}}, 16.06),
        (QWEN3_30B_A3B, 61.1),
        (SMOLLM2_135M, 0.269),
    ],
)
def test_known_models(config: dict[str, Any], gigabytes: float) -> None:
    size = estimated_weights_bytes(config)
    assert size is not None
    assert size / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
def test_without_a_dimension_there_is_no_estimate(name: str) -> None:
    assert estimated_weights_bytes({key: value for key, value in LLAMA_8B.items() if key != name}) is None


odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "4096", 0, -1, True, 1.5, 64, {}, {"bits": 0}, {"hidden_size": None}, []]
)


@given(st.dictionaries(st.sampled_from([*LLAMA_8B, "num_experts", "text_config", "quantization_config"]), odd))
def test_a_strange_config_is_no_error(strange: dict[str, Any]) -> None:
    for config in (strange, LLAMA_8B | strange):
        size = estimated_weights_bytes(config)
        assert size is None or size > 0
