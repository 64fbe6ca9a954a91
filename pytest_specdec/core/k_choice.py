"""Which Ks a config could have: whether its method has a K at all, what its draft allows, and for how many tokens it was trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.spec_methods import METHODS, plain_method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.draft_facts import ModelFacts

K_MAX = 8
"""Gains end well before, and a prediction reaches only so far."""
_SECOND = 4
"""Measured beside K = 1: far enough away to show what a token costs."""
SCHEDULE_KEY = "num_speculative_tokens_per_batch_size"
"""Lets the batch size decide."""
_K = "num_speculative_tokens"
_RATES = "synthetic_acceptance_rates"
_NO_K = {
    "suffix": "suffix decoding drafts as many tokens as it finds; there is no K to choose",
    "extract_hidden_states": "extract_hidden_states drafts nothing",
    "dflash": "dflash drafts a block at once; what it costs does not grow with K",
    "dspark": "dspark drafts a block at once; what it costs does not grow with K",
    "medusa": "medusa drafts with a fixed set of heads, all at once; what it costs does not grow with K",
    "mlp_speculator": "mlp_speculator drafts with a fixed set of heads; K is their number",
}


@dataclass(frozen=True)
class KChoice:
    """What can be tried."""

    candidates: tuple[int, ...]
    """Empty when there is nothing to choose."""
    refusal: str = ""
    """Why not."""
    trained_for: tuple[str, int] | None = None
    """The field of the draft (or of the target with its own heads) that says how many tokens it was trained for, and the number."""

    def probes(self, stated: int | None) -> tuple[int, int]:
        """The two Ks to measure first, the smaller one first: the config's own where that is not the smallest, and the smallest.

        Args:
            stated: The config's K.
        """
        least, *others = self.candidates
        return least, stated if stated in others else min(others, key=lambda k: abs(k - _SECOND))

    def beyond_training(self, k: int) -> str:
        """A sentence where K is more than the draft was trained for; else empty."""
        if self.trained_for is None or k <= self.trained_for[1]:
            return ""
        key, steps = self.trained_for
        return f"the draft was trained for {steps} ({key}), and a K of {k} asks for more: later positions are seldom accepted"


def k_choice(
    speculative_config: Mapping[str, Any], stated: int | None, draft: ModelFacts | None, target: ModelFacts | None
) -> KChoice:
    """What can be tried for a config.

    Args:
        speculative_config: As vLLM gets it.
        stated: Its K.
        draft: What is known about the draft's files.
        target: Likewise, for heads that are the target's own.
    """
    method = plain_method(speculative_config.get("method")) or (draft.kind if draft is not None else None)
    keys = {str(key).replace("-", "_") for key in speculative_config}
    if SCHEDULE_KEY in keys:
        return KChoice((), f"{SCHEDULE_KEY} makes K depend on the batch; remove it to look for a single K")
    if method in _NO_K:
        return KChoice((), _NO_K[method])
    if method is not None and method in METHODS and METHODS[method].takes_k == "own":
        return KChoice((), f"{method} has no K of its own to choose")
    if "synthetic_acceptance_length" in keys:
        return KChoice(
            (), "synthetic_acceptance_length is the same for every K; state synthetic_acceptance_rates instead"
        )
    facts = target if method == "mtp" and draft is None else draft
    own = facts.own_k if facts is not None else None
    # vLLM runs such heads several times, so K must be a multiple of their number.
    step = own[1] if own is not None and own[1] > 1 and (own[0] == "n_predict" or method == "mtp") else 1
    most = max(K_MAX, stated or 0, 2 * step)
    rates = speculative_config.get(_RATES, speculative_config.get(_RATES.replace("_", "-")))
    if isinstance(rates, list):  # one for each position, and no more can be made up
        most = min(most, len(rates))
    candidates = tuple(range(step, most + 1, step))
    if len(candidates) < 2:  # noqa: PLR2004 - one is no choice
        return KChoice((), f"{_RATES} has rates for too few positions to choose among")
    return KChoice(candidates, trained_for=own)


def with_k(speculative_config: Mapping[str, Any], k: int) -> dict[str, Any]:
    """A speculative config with another K, and acceptance that is made up cut to as many positions."""
    changed = {
        (name.replace("-", "_") if name.replace("-", "_") == _K else name): value
        for name, value in speculative_config.items()
    }
    rates = changed.get(_RATES)
    if isinstance(rates, list):
        changed[_RATES] = rates[:k]
    return {**changed, _K: k}


def config_with_k(config: SpecConfig, k: int) -> SpecConfig:
    """The same config with another K, under an id of its own."""
    changed = {"id": f"{config.id}-k{k}", "speculative_config": with_k(config.speculative_config, k)}
    return config.model_copy(update=changed)
