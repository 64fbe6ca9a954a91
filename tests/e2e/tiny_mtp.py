"""A tiny target with an MTP head and random weights: proves the path of the ``mtp`` method where no real checkpoint can be had.

vLLM fills in the weights itself (``--load-format dummy``), so the folder holds a config and a tokenizer only. What such a head
drafts is noise: it is drafted, verified and counted, and next to nothing is accepted.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

# MiMo is a Qwen2 with MTP layers: vLLM tells it by the architecture, not by the model type.
CONFIG: dict[str, Any] = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "qwen2",
    "num_nextn_predict_layers": 1,
    # Small, but not so small that vLLM's API server, rather than the model, sets the pace of a stream.
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "vocab_size": 49152,
}


def make_tiny_mtp(folder: Path, tokenizer_from: Path) -> Path:
    """Write the folder, with the tokenizer of another model whose vocabulary fits (SmolLM2's)."""
    folder.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        shutil.copy(tokenizer_from / name, folder / name)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1), encoding="utf-8")
    return folder
