"""What a model's ``config.json`` gives away: which kind of draft it is, its sizes, and for how many tokens it was trained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.spec_methods import METHODS, MTP_ALIASES, SPECULATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers")
_OWN_K = ("n_predict", "dspark_block_size", "block_size", *_MTP_LAYERS)
"""Where checkpoints keep the number of tokens that they draft at once."""


@dataclass(frozen=True)
class ModelFacts:
    """A local model as its files describe it; None where they say nothing."""

    name: str
    """As the config names it."""
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    layers: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    """Of the target that a draft was trained for."""
    positions: int | None = None
    """``max_position_embeddings``."""
    speculators: str | None = None
    """``speculators_model_type``, of checkpoints in that format."""
    own_k: tuple[str, int] | None = None
    """The key that says how many tokens it drafts, and the number."""
    mtp: bool = False
    """Whether it has layers for multi-token prediction."""
    medusa_heads: int | None = None
    min_p: float | None = None
    """Default for requests, from ``generation_config.json``."""

    @property
    def kind(self) -> str:
        """The method that it is for, or ``plain`` for a model of its own."""
        if self.speculators is not None:
            return SPECULATORS.get(self.speculators, (self.speculators, None))[0]
        for architecture in self.architectures:
            if kind := _kind_of(architecture):
                return kind
        if self.model_type in ("medusa", "mlp_speculator"):
            return self.model_type
        if self.medusa_heads is not None and not self.architectures:
            return "medusa"
        if self.draft_vocab_size is not None and self.layers == 1:
            return "eagle3"
        return "mtp" if self.mtp else "plain"

    @property
    def telling(self) -> str:
        """The fields that say what it is, quoted."""
        parts = []
        if self.speculators is not None:
            parts.append(f'"speculators_model_type": "{self.speculators}"')
        if self.architectures:
            listed = ", ".join(f'"{name}"' for name in self.architectures)
            parts.append(f'"architectures": [{listed}]')
        elif self.model_type:
            parts.append(f'"model_type": "{self.model_type}"')
        if self.medusa_heads is not None:
            parts.append(f'"medusa_num_heads": {self.medusa_heads}')
        if self.kind == "eagle3" and self.draft_vocab_size is not None:
            parts.append(f'"draft_vocab_size": {self.draft_vocab_size}')
        if self.kind == "mtp" and self.own_k:
            parts.append(f'"{self.own_k[0]}": {self.own_k[1]}')
        return ", ".join(parts) or "no architecture"


_KINDS = (
    (re.compile(r"eagle2_5_vl"), None),  # a model for images that only sounds like a draft
    (re.compile(r".*dflash|museglimmerassistantmodel$"), "dflash"),
    (re.compile(r".*dspark"), "dspark"),
    (re.compile(r"eagle3|peagle|.*eagle3$"), "eagle3"),
    (re.compile(r"eagle"), "eagle"),
    (re.compile(r".*medusa"), "medusa"),
    (re.compile(r".*mlpspeculator"), "mlp_speculator"),
    (re.compile(r".*mtp(model)?$"), "mtp"),
)
"""Architectures in lower case, in vLLM's registry and before it renames them; the first that matches counts."""


def _kind_of(architecture: str) -> str | None:
    return next((kind for pattern, kind in _KINDS if pattern.match(architecture.lower())), None)


def model_facts(name: str, config: Mapping[str, Any], generation: Mapping[str, Any]) -> ModelFacts:
    """Read the facts out of ``config.json`` and ``generation_config.json``; whatever has another form says nothing."""
    speculators = config.get("speculators_config")
    layer = config.get("transformer_layer_config")
    text = config.get("text_config")
    # Multimodal models keep the sizes of their language model one level below, checkpoints of speculators those of their layer.
    within = [part for part in (config, layer, text) if isinstance(part, dict)]

    def number(*keys: str) -> int | None:
        for key in keys:
            for part in within:
                value = part.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                    return value
        return None

    mtp_config = config.get("mtp_config")
    if isinstance(mtp_config, dict):
        within.append(mtp_config)
    own_k = next(((key, value) for key in _OWN_K if (value := number(key))), None)
    if isinstance(speculators, dict):
        own_k = _proposed(speculators) or own_k
    architectures = config.get("architectures")
    model_type = config.get("model_type")
    model_type = model_type if isinstance(model_type, str) else None
    kind = config.get("speculators_model_type")
    min_p = generation.get("min_p")
    return ModelFacts(
        name=name,
        architectures=tuple(a for a in architectures if isinstance(a, str)) if isinstance(architectures, list) else (),
        model_type=model_type,
        layers=number("num_hidden_layers"),
        vocab_size=number("vocab_size"),
        draft_vocab_size=number("draft_vocab_size"),
        hidden_size=number("hidden_size"),
        target_hidden_size=number("target_hidden_size"),
        positions=number("max_position_embeddings"),
        speculators=kind if isinstance(kind, str) and speculators is not None else None,
        own_k=own_k,
        mtp=any(number(key) for key in _MTP_LAYERS) or model_type in MTP_ALIASES,
        medusa_heads=number("medusa_num_heads"),
        min_p=float(min_p) if isinstance(min_p, int | float) and not isinstance(min_p, bool) else None,
    )


def _proposed(speculators: Mapping[str, Any]) -> tuple[str, int] | None:
    methods = speculators.get("proposal_methods")
    first = methods[0] if isinstance(methods, list) and methods else None
    tokens = first.get("speculative_tokens") if isinstance(first, dict) else None
    return ("speculative_tokens", tokens) if isinstance(tokens, int) and not isinstance(tokens, bool) else None


def shown_kind(kind: str) -> str:
    """``an eagle3 draft``, ``a model of its own``."""
    if kind == "plain":
        return "a model of its own"
    if kind == "mtp":
        return "a model with MTP layers"
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{article} {kind} draft" if kind in METHODS else f"a draft of the kind {kind}"
