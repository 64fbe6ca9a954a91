"""The table of keys in a speculative config: what vLLM takes, from which release on and until which.

Read in the sources of the releases; ``tests/data/vllm/speculative.json`` holds what they say, and the tests compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["int", "float", "bool", "text", "choice", "object", "floats", "schedule", "internal", "trap"]

NGRAM = ("ngram", "ngram_gpu")
DRAFTING = ("draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark", "medusa", "mlp_speculator")
"""Methods with weights of their own."""


@dataclass(frozen=True)
class SpecField:
    """One key."""

    name: str
    kind: Kind
    since: str | None = None
    gone: str | None = None
    """The first release that refuses it."""
    instead: str = ""
    """What to do where it is not known, in words."""
    least: float | None = None
    most: float | None = None
    nullable: bool = True
    """Whether vLLM takes null for "left out"."""
    default: Any = None
    methods: tuple[str, ...] = ()
    """Methods that look at it; empty: all."""
    only: bool = False
    """Whether vLLM refuses it beside another method, instead of not looking at it."""


def _table(*fields: SpecField) -> dict[str, SpecField]:
    return {field.name: field for field in fields}


_NO_LONGER = "Remove it."
_SYNTHETIC_NAMES = (
    "Since 0.20.0 it is synthetic_acceptance_length (one number) or synthetic_acceptance_rates (one for each position)."
)

FIELDS = _table(
    SpecField("method", "text"),
    SpecField("model", "text"),
    SpecField(
        "num_speculative_tokens", "int", least=1, most=128, nullable=False
    ),  # MAX_SPEC_LEN of the rejection sampler
    SpecField("enforce_eager", "bool", since="0.11.0"),
    SpecField("draft_tensor_parallel_size", "int", least=1, methods=DRAFTING),
    SpecField("quantization", "text", methods=DRAFTING),
    SpecField("max_model_len", "int", least=1, methods=DRAFTING),
    SpecField("revision", "text", methods=DRAFTING),
    SpecField("code_revision", "text", methods=DRAFTING),
    SpecField("moe_backend", "text", since="0.19.0", methods=DRAFTING),
    SpecField("attention_backend", "text", since="0.21.0", methods=DRAFTING),
    SpecField("kv_cache_dtype", "text", since="0.26.0", methods=DRAFTING),
    SpecField("draft_load_config", "object", since="0.17.0", methods=DRAFTING),
    SpecField(
        "disable_padded_drafter_batch",
        "bool",
        since="0.11.0",
        nullable=False,
        default=False,
        methods=("eagle", "eagle3", "mtp", "draft_model"),
    ),
    SpecField("use_local_argmax_reduction", "bool", since="0.17.0", nullable=False, default=False, methods=DRAFTING),
    SpecField(
        "parallel_drafting",
        "bool",
        since="0.16.0",
        nullable=False,
        default=False,
        methods=("draft_model", "eagle", "eagle3", "dflash", "dspark"),
    ),
    SpecField(
        "use_heterogeneous_vocab",
        "bool",
        since="0.25.0",
        nullable=False,
        default=False,
        methods=("draft_model",),
        only=True,
        instead="Before that, draft and target must share one vocabulary.",
    ),
    SpecField("index_share_for_mtp_iteration", "bool", since="0.29.0", methods=("mtp",), only=True),
    SpecField("disable_eagle_block_drop", "bool", since="0.30.0", nullable=False, default=False, methods=DRAFTING),
    SpecField(
        "disable_lookahead_block_hashes", "bool", since="0.33.0", nullable=False, default=False, methods=DRAFTING
    ),
    SpecField("draft_lm_head_quantization", "choice", since="0.33.0", methods=("eagle", "eagle3", "mtp")),
    SpecField(
        "enable_adaptive_verification",
        "bool",
        since="0.28.0",
        nullable=False,
        default=False,
        methods=("dspark",),
        only=True,
    ),
    SpecField("dspark_draft_topk", "int", since="0.28.0", least=1, methods=("dspark",), only=True),
    SpecField("xpress_topc", "int", since="0.33.0", least=0, methods=("dflash",)),
    SpecField("prompt_lookup_max", "int", least=1, methods=NGRAM),
    SpecField("prompt_lookup_min", "int", least=1, methods=NGRAM),
    SpecField(
        "suffix_decoding_max_tree_depth",
        "int",
        since="0.12.0",
        least=1,
        nullable=False,
        default=24,
        methods=("suffix",),
    ),
    SpecField(
        "suffix_decoding_max_cached_requests",
        "int",
        since="0.12.0",
        least=0,
        nullable=False,
        default=10000,
        methods=("suffix",),
    ),
    SpecField(
        "suffix_decoding_max_spec_factor",
        "float",
        since="0.12.0",
        least=0,
        nullable=False,
        default=1.0,
        methods=("suffix",),
    ),
    SpecField(
        "suffix_decoding_min_token_prob",
        "float",
        since="0.12.0",
        least=0,
        most=1,
        nullable=False,
        default=0.1,
        methods=("suffix",),
    ),
    SpecField("rejection_sample_method", "choice", since="0.18.0", nullable=False, instead=_NO_LONGER),
    SpecField("draft_sample_method", "choice", since="0.21.0", nullable=False, default="greedy", methods=DRAFTING),
    SpecField("synthetic_acceptance_length", "float", since="0.20.0", least=1),
    SpecField("synthetic_acceptance_rates", "floats", since="0.20.0"),
    SpecField("fly_window_size", "int", since="0.33.0", least=1),
    SpecField("fly_entropy_threshold", "float", since="0.33.0", least=0, nullable=False, default=0.3),
    SpecField("fly_entropy_top_k", "int", since="0.33.0", least=1, nullable=False, default=3),
    SpecField("num_speculative_tokens_per_batch_size", "schedule", since="0.24.0"),
    # What older releases took.
    SpecField("synthetic_acceptance_rate", "float", since="0.19.0", gone="0.20.0", instead=_SYNTHETIC_NAMES),
    SpecField(
        "speculative_token_tree",
        "text",
        since="0.9.0",
        gone="0.21.0",
        instead="Since 0.22.0 no release drafts trees; num_speculative_tokens says how many tokens are drafted.",
    ),
    SpecField(
        "disable_by_batch_size",
        "int",
        gone="0.17.0",
        least=2,
        instead="num_speculative_tokens_per_batch_size does this since 0.24.0, such as [[1, 8, 4], [9, 256, 0]].",
    ),
    SpecField(
        "acceptance_method",
        "text",
        since="0.8.3",
        gone="0.10.0",
        instead="rejection_sample_method chooses the verification since 0.18.0.",
    ),
    SpecField("posterior_threshold", "float", since="0.8.3", gone="0.10.0", instead=_NO_LONGER),
    SpecField("posterior_alpha", "float", since="0.8.3", gone="0.10.0", instead=_NO_LONGER),
    SpecField("disable_mqa_scorer", "bool", since="0.8.3", gone="0.10.0", instead=_NO_LONGER),
    # Keys that are there only for vLLM itself, or to be refused.
    SpecField("tensor_parallel_size", "trap", instead="Use draft_tensor_parallel_size."),
    SpecField("target_model_config", "internal", instead="The target stands at `model` of an envelope."),
    SpecField("target_parallel_config", "internal", instead="Set the target's parallelism in `serve`."),
    SpecField("draft_model_config", "internal", instead="The draft stands at `model` of the speculative config."),
    SpecField("draft_parallel_config", "internal", instead="Use draft_tensor_parallel_size."),
)

V0_KEYS = {
    "speculative_model": "model",
    "speculative_method": "method",
    "speculative_model_quantization": "quantization",
    "speculative_draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative_max_model_len": "max_model_len",
    "speculative_tokens": "num_speculative_tokens",
    "speculative_disable_by_batch_size": "",
    "speculative_disable_mqa_scorer": "",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
    "spec_decoding_acceptance_method": "",
    "typical_acceptance_sampler_posterior_threshold": "",
    "typical_acceptance_sampler_posterior_alpha": "",
    "disable_logprobs": "",
    "disable_logprobs_during_spec_decoding": "",
    "num_lookahead_slots": "",
    "use_v2_block_manager": "",
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
"""Names of flags, gone in 0.9.0 (``spec_*``: flags of today), and the key that says the same; empty where none does."""

SAMPLING_KEYS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "max_tokens",
        "stop",
        "ignore_eos",
        "logit_bias",
        "logprobs",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
    }
)
"""Parameters of requests."""
