"""A local draft, and a local target, against the method and against each other; every finding quotes the fields that say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.draft_facts import ModelFacts, shown_kind
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.server_flags import option_of, value_of
from pytest_specdec.core.spec_methods import METHODS, SPECULATORS, plain_method

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specdec.core.vllm_versions import Versions

_AT_MODEL = ("speculative_config", "model")
_AT_METHOD = ("speculative_config", "method")
_AT_K = ("speculative_config", "num_speculative_tokens")
_ON_TARGETS_STATES = ("eagle", "eagle3", "dflash", "dspark", "medusa")
"""Methods whose draft reads the target's hidden states, so that its size must fit."""
_ONE_LAYER = 2
"""An EAGLE draft has one layer, seldom two."""
_PLAIN_TYPES = frozenset({"llama", "qwen2", "qwen3", "mistral", "mixtral", "gemma2", "phi3", "opt", "gpt2", "gpt_oss"})
"""Model types for which vLLM has no MTP head."""


@dataclass(frozen=True)
class Pair:
    """A config's models, as far as they lie in local folders."""

    config: Mapping[str, Any]
    """The speculative config."""
    k: int | None
    target: ModelFacts | None
    draft: ModelFacts | None
    flags: Sequence[str]
    """Words of both servers' command line."""
    versions: Versions

    @property
    def method(self) -> str | None:
        """By its name of today."""
        return plain_method(self.config.get("method"))


def pair_problems(pair: Pair) -> Iterator[Problem]:
    """What does not fit."""
    yield from _target_defaults(pair)
    if pair.method == "mtp" and pair.draft is None and "model" not in pair.config:
        yield from _target_without_mtp(pair)
    if pair.draft is None:
        return
    kind_problems = list(_kinds(pair, pair.draft))
    yield from kind_problems
    if any(problem.severity == "error" for problem in kind_problems):
        return  # sizes of the wrong kind of model would only confuse
    yield from _steps(pair, pair.draft)
    if pair.target is not None:
        yield from _vocabularies(pair, pair.draft, pair.target)
        yield from _hidden_sizes(pair, pair.draft, pair.target)
    yield from _lengths(pair, pair.draft)


def _target_defaults(pair: Pair) -> Iterator[Problem]:
    target = pair.target
    source = value_of(pair.flags, "generation-config")
    if target is None or not target.min_p or source not in (None, "auto"):
        return
    if any(option_of(word) == "override-generation-config" and "min_p" in word for word in pair.flags):
        return
    if "min_p" in (value_of(pair.flags, "override-generation-config") or ""):
        return
    what = (
        f'generation_config.json of {target.name} says "min_p": {target.min_p:g} for every request, and with speculation vLLM '
        "answers such requests with HTTP 400"
    )
    yield Problem(("model",), what, "Add `generation_config: vllm` to `serve`.")


def _target_without_mtp(pair: Pair) -> Iterator[Problem]:
    target = pair.target
    if target is None or target.kind == "mtp":
        return
    what = f"mtp drafts with MTP layers of the target, and {target.name} shows none ({target.telling}, no num_nextn_predict_layers)"
    surely = target.model_type in _PLAIN_TYPES
    yield Problem(_AT_METHOD, what, "Name another method.", "error" if surely else "warning")


def _kinds(pair: Pair, draft: ModelFacts) -> Iterator[Problem]:
    method, kind = pair.method, draft.kind
    says = f"config.json of {draft.name} says {draft.telling}: {shown_kind(kind)}"
    yield from _format_age(pair, draft)
    if method is None or method not in METHODS or METHODS[method].model in ("none", "code") or method == kind:
        return
    remedy = f'Set "method": "{kind}".' if kind in METHODS else "Name the draft that was trained for this method."
    if method == "draft_model":
        if kind == "mtp":
            yield Problem(_AT_MODEL, f"{says}, so vLLM may take mtp instead of draft_model", remedy, "warning")
        elif kind != "plain":
            yield Problem(_AT_MODEL, f"{says}, and the method is draft_model, which needs a model of its own", remedy)
    elif kind == "plain":
        yield from _plain_for(method, draft, says)
    elif not (method in ("dspark", "dflash") and kind == "mtp"):
        yield Problem(_AT_MODEL, f"{says}, and the method is {method}", remedy)


def _plain_for(method: str, draft: ModelFacts, says: str) -> Iterator[Problem]:
    """EAGLE-1 drafts call themselves what their layer is (``LlamaForCausalLM``), so only more layers give a model away."""
    if method in ("dflash", "dspark"):
        yield Problem(_AT_MODEL, f"{says}, and the method is {method}", "Check that it is the draft.", "warning")
        return
    layers = draft.layers
    if method in ("eagle", "eagle3") and (layers is None or layers <= _ONE_LAYER):
        return
    more = f' with "num_hidden_layers": {layers}' if layers is not None else ""
    yield Problem(_AT_MODEL, f"{says}{more}, and the method is {method}", 'Set "method": "draft_model".')


def _format_age(pair: Pair, draft: ModelFacts) -> Iterator[Problem]:
    if draft.speculators is None:
        return
    says = f'config.json of {draft.name} says "speculators_model_type": "{draft.speculators}"'
    if draft.speculators not in SPECULATORS:
        if not pair.versions.beyond:
            known = ", ".join(SPECULATORS)
            yield Problem(_AT_MODEL, f"{says}, which vLLM does not read", f"It reads {known}.", "warning")
        return
    since = SPECULATORS[draft.speculators][1]
    standing = pair.versions.standing(since, None)
    if standing == "too early":
        yield Problem(_AT_MODEL, f"{says}, which vLLM reads since {since}; this is {pair.versions.name}")
    elif standing == "depends" and pair.versions.ifs:
        yield Problem(_AT_MODEL, f"{says}, which is refused if vLLM is older than {since}", severity="warning")


def _steps(pair: Pair, draft: ModelFacts) -> Iterator[Problem]:
    k, own = pair.k, draft.own_k
    stated = any(str(key).replace("-", "_") == "num_speculative_tokens" for key in pair.config)
    if not stated:
        if own is None and draft.speculators is None:
            what = f"K is missing, and config.json of {draft.name} has no n_predict, block size or speculators format to take it from"
            yield Problem(_AT_MODEL, what, 'Add "num_speculative_tokens", such as 3.')
        return
    if k is None:
        return
    if draft.medusa_heads is not None and k > draft.medusa_heads:
        what = f'is {k}, and config.json of {draft.name} says "medusa_num_heads": {draft.medusa_heads}'
        yield Problem(_AT_K, what, f"Lower it to {draft.medusa_heads}.")
    if own is None:
        return
    key, steps = own
    says = f'is {k}, and config.json of {draft.name} says "{key}": {steps}'
    if key == "dspark_block_size":
        if k < steps and pair.versions.standing("0.26.0", "0.28.0") == "known":
            yield Problem(_AT_K, f"{says}: {pair.versions.name} refuses fewer", f"Set {steps}.")
    elif k > steps and key == "n_predict" and k % steps:
        yield Problem(_AT_K, f"{says}: it must be divisible by that", f"Set {steps * (k // steps)}.")
    elif k > steps:
        what = f"{says}: it was trained for {steps}, so positions after that are seldom accepted"
        yield Problem(_AT_K, what, f"Try {steps}.", "warning")


def _vocabularies(pair: Pair, draft: ModelFacts, target: ModelFacts) -> Iterator[Problem]:
    ours, theirs = draft.vocab_size, target.vocab_size
    if theirs is None:
        return
    if draft.draft_vocab_size is not None and draft.draft_vocab_size > theirs:
        what = f'config.json of {draft.name} says "draft_vocab_size": {draft.draft_vocab_size}, more than the target has ({theirs})'
        yield Problem(_AT_MODEL, what, "Name the draft that was trained for this target.")
        return
    if ours is None or ours == theirs or pair.method == "medusa":
        return
    what = f'config.json of {draft.name} says "vocab_size": {ours}, and that of the target {target.name} says {theirs}'
    if pair.method == "draft_model":
        if pair.config.get("use_heterogeneous_vocab", pair.config.get("use-heterogeneous-vocab")) is True:
            return
        heterogeneous = ', or set "use_heterogeneous_vocab": true' if _heterogeneous(pair) else ""
        yield Problem(_AT_MODEL, what, f"Name a draft with the target's vocabulary{heterogeneous}.")
    elif pair.method in _ON_TARGETS_STATES:
        yield Problem(_AT_MODEL, what, "Name the draft that was trained for this target.")
    else:
        yield Problem(_AT_MODEL, what, "Check that the draft is for this target.", "warning")


def _heterogeneous(pair: Pair) -> bool:
    return pair.versions.standing("0.25.0", None) != "too early"


def _hidden_sizes(pair: Pair, draft: ModelFacts, target: ModelFacts) -> Iterator[Problem]:
    key = "target_hidden_size" if draft.target_hidden_size is not None else "hidden_size"
    ours = draft.target_hidden_size if draft.target_hidden_size is not None else draft.hidden_size
    if pair.method not in _ON_TARGETS_STATES or ours is None or target.hidden_size in (None, ours):
        return
    what = (
        f'config.json of {draft.name} says "{key}": {ours}, and that of the target {target.name} "hidden_size": {target.hidden_size}: '
        f"{pair.method} drafts from the target's hidden states"
    )
    yield Problem(_AT_MODEL, what, "Name the draft that was trained for this target.")


def _lengths(pair: Pair, draft: ModelFacts) -> Iterator[Problem]:
    if draft.positions is None:
        return
    limit = pair.config.get("max_model_len")
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > draft.positions:
        what = f'is {limit}, and config.json of {draft.name} says "max_position_embeddings": {draft.positions}'
        yield Problem(("speculative_config", "max_model_len"), what, f"Lower it to {draft.positions}.")
        return
    given = value_of(pair.flags, "max-model-len")
    length = int(given) if given is not None and given.isascii() and given.isdigit() else None
    source = "max_model_len in `serve`"
    if length is None and pair.target is not None:
        length, source = pair.target.positions, f"max_position_embeddings of the target {pair.target.name}"
    if length is None or length <= draft.positions:
        return
    what = (
        f'config.json of {draft.name} says "max_position_embeddings": {draft.positions}, below {length} ({source}): '
        "longer sequences get no drafts, or bad ones"
    )
    yield Problem(_AT_MODEL, what, f"Measure with at most {draft.positions} tokens, or set max_model_len.", "warning")
