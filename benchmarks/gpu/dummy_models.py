"""Model folders of a real shape with no weights, for timing controls: vLLM fills them with random numbers (``--load-format dummy``).

    python benchmarks/gpu/dummy_models.py TOKENIZER_FOLDER OUT

writes ``OUT/target-8b`` (the shape of Llama-3.1-8B), ``OUT/head-8b`` (an EAGLE-3 head for it), ``OUT/draft-0.6b`` (the shape of
Qwen3-0.6B), ``OUT/target-24b`` (the shape of Mistral-Small-24B: two of them do not fit one H200) and ``OUT/head-24b``, with the tokenizer and vocabulary of TOKENIZER_FOLDER. Time per step is that of the real shape; what is written is noise, so
acceptance has to be made up with ``rejection_sample_method: synthetic``. The folders' names hold no word from which vLLM would guess a method.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

_BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "bfloat16",
}
_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
_24B = {
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
_HEAD = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": 32000,
    "tie_word_embeddings": False,
}
SHAPES: dict[str, dict[str, Any]] = {
    "target-8b": _8B | {"num_hidden_layers": 32, "tie_word_embeddings": False},
    "head-8b": _8B | _HEAD | {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]},
    "target-24b": _24B | {"num_hidden_layers": 40, "tie_word_embeddings": False},
    "head-24b": _24B | _HEAD | {"eagle_aux_hidden_state_layer_ids": [2, 20, 37]},
    "draft-0.6b": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 28,
        "tie_word_embeddings": True,
    },
}


def make(name: str, tokenizer: Path, out: Path) -> Path:
    """Write one folder.

    Args:
        name: A key of ``SHAPES``.
        tokenizer: A model folder whose tokenizer and vocabulary size are taken.
        out: The folder is made in it.
    """
    source = json.loads((tokenizer / "config.json").read_text())
    special = {
        key: source[key] for key in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id") if key in source
    }
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_BASE | special | SHAPES[name], indent=1))
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        if (tokenizer / file).exists():
            shutil.copy(tokenizer / file, folder)
    return folder


if __name__ == "__main__":
    for shape in SHAPES:
        print(make(shape, Path(sys.argv[1]), Path(sys.argv[2])))
