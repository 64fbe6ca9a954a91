"""How much memory a model's weights take, estimated from its ``config.json`` where there are no files of weights to look at.

For decoder-only transformers in Hugging Face's form. The estimate decides how two servers share a device, so it need not be
exact; where the config does not hold what it takes, there is no estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES = {"float32": 4.0, "float": 4.0, "float64": 8.0, "float8_e4m3fn": 1.0, "int8": 1.0}
_HALF = 2.0


def estimated_weights_bytes(config: Mapping[str, Any]) -> float | None:
    """Bytes of all weights in the type that the config states; None where it does not describe a known shape."""
    inner = config.get("text_config")
    text = {**config, **inner} if isinstance(inner, dict) else config
    parameters = _parameters(text)
    return None if parameters is None else parameters * _bytes_each(text)


def _parameters(config: Mapping[str, Any]) -> float | None:
    hidden, layers, vocabulary = (_count(config, name) for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    heads = _count(config, "num_attention_heads")
    if not (hidden and layers and vocabulary and heads):
        return None
    head = _count(config, "head_dim") or hidden // heads
    kv_heads = _count(config, "num_key_value_heads") or heads
    attention = 2 * hidden * heads * head + 2 * hidden * kv_heads * head
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return layers * (attention + _feed_forward(config, hidden)) + embeddings


def _feed_forward(config: Mapping[str, Any], hidden: int) -> int:
    """Gate, up and down of every expert, or of the only one."""
    width = _count(config, "intermediate_size") or 4 * hidden
    experts = next(
        (n for name in ("num_experts", "n_routed_experts", "num_local_experts") if (n := _count(config, name))), 0
    )
    if not experts:
        return 3 * hidden * width
    shared = _count(config, "n_shared_experts") or 0
    return 3 * hidden * (_count(config, "moe_intermediate_size") or width) * (experts + shared)


def _bytes_each(config: Mapping[str, Any]) -> float:
    quantized = config.get("quantization_config")
    if isinstance(quantized, dict):
        bits = _count(quantized, "bits")
        return bits / 8 if bits else 1.0
    return _BYTES.get(str(config.get("dtype") or config.get("torch_dtype")), _HALF)


def _count(config: Mapping[str, Any], name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
