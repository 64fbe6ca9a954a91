"""Rules between the keys of a speculative config, and between them and the server's flags.

Each rule takes the values as vLLM takes them, and keeps quiet about those that are refused already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.config_rules import shown
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.spec_fields import FIELDS, NGRAM
from pytest_specdec.core.spec_methods import METHODS
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.core.verification_rules import verification_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.spec_given import Given

_K = "num_speculative_tokens"


def rules_between(given: Given) -> Iterator[Problem]:
    """What the rules find, in a fixed order."""
    for rule in (
        _who_drafts,
        _how_many,
        _window,
        _keys_of_other_methods,
        _draft_parallelism,
        _draft_length,
        _vocabulary,
        verification_problems,
    ):
        yield from rule(given)


def _who_drafts(given: Given) -> Iterator[Problem]:
    model, method = given.values.get("model"), given.method
    if "model" in given.written and model is None:
        return
    if "method" in given.written and "method" not in given.values:
        return
    if given.auto:
        if model is None:
            yield Problem(
                given.at("method"), "names neither a method nor a model: nothing would draft", "Add `method`."
            )
        else:
            what = "is left out, so method: auto: vLLM guesses it from the draft"
            yield Problem(given.at("model"), f"method {what}", "State it to be sure.", "note")
        return
    if method is None:
        return
    kind = METHODS[method].model
    if kind in ("draft", "code") and model is None:
        needed = "the dotted path of a class" if kind == "code" else "the draft"
        yield Problem(given.at("method"), f"{method} needs a model, and none is given", f"Add `model`: {needed}.")
    elif kind == "none" and model is not None and model not in {method, "[ngram]"}:
        yield Problem(given.at("model"), f"is not looked at: {method} drafts without a model", "Remove it.", "warning")
    elif kind == "code" and model is not None and ("/" in model or "." not in model):
        yield Problem(
            given.at("model"), f"{shown(model)} is no dotted path of a class", "Such as my_package.MyProposer."
        )
    if method == "extract_hidden_states":
        what = "extract_hidden_states writes hidden states and drafts nothing that could pay off"
        yield Problem(given.at("method"), what, "There is nothing to compare.", "warning")


def _how_many(given: Given) -> Iterator[Problem]:
    if _K in given.written or (given.method is None and given.values.get("model") is None):
        return
    method = given.method
    near = [key for key in given.unknown if did_you_mean(key, (_K,), cutoff=0.7) or key.lower() == "k"]
    hint = f"{near[0]} is unknown: did you mean {_K}?" if near else f'Add "{_K}", such as 3.'
    keys = given.at(near[0]) if near and near[0] in given.written else given.at("method")
    takes_k = METHODS[method].takes_k if method else "draft"
    if takes_k == "stated" or (near and takes_k != "own"):
        yield Problem(keys, f"K is missing: {_K} is required for {method or 'this'}", hint)
    elif takes_k == "own":
        depth = given.values.get("suffix_decoding_max_tree_depth", FIELDS["suffix_decoding_max_tree_depth"].default)
        yield Problem(given.at("method"), f"{_K} is left out: K defaults to the tree depth, {depth}", severity="note")
    elif method is not None and given.values.get("model") is None and METHODS[method].model == "target":
        what = f"{_K} is left out, and vLLM takes it from the checkpoint only where `model` is given as well"
        yield Problem(given.at("method"), what, f'Add "{_K}".', "warning")
    else:
        yield Problem(given.at("model"), f"{_K} is left out: K is left to the draft", severity="note")


def _window(given: Given) -> Iterator[Problem]:
    if given.method not in NGRAM:
        return
    low, high = given.values.get("prompt_lookup_min"), given.values.get("prompt_lookup_max")
    if any(given.written.get(name) and name not in given.values for name in ("prompt_lookup_min", "prompt_lookup_max")):
        return
    if low is None and high is None:
        what = "gives no window: it becomes 5..5 (prompt_lookup_min and prompt_lookup_max)"
        yield Problem(given.at("method"), what, severity="note")
    elif low is None:
        what = f"is given alone: prompt_lookup_min becomes {high} too, so few drafts"
        yield Problem(given.at("prompt_lookup_max"), what, "Give prompt_lookup_min, such as 2.", "warning")
    elif high is None:
        what = f"is given alone: prompt_lookup_max becomes {low} too"
        yield Problem(given.at("prompt_lookup_min"), what, "Give prompt_lookup_max.", "warning")
    elif low > high:
        yield Problem(
            given.at("prompt_lookup_min"), f"prompt_lookup_min {low} > prompt_lookup_max {high}", "Swap them."
        )


def _keys_of_other_methods(given: Given) -> Iterator[Problem]:
    if given.method is None:
        return
    for name, value in given.values.items():
        field = FIELDS[name]
        if not field.methods or given.method in field.methods or (field.nullable is False and value == field.default):
            continue
        whom = ", ".join(field.methods[:3]) + (", ..." if len(field.methods) > 3 else "")  # noqa: PLR2004 - what fits a line
        if field.only and value is not False:
            yield Problem(
                given.at(name),
                f"works with {whom} only, and the method is {given.method}: vLLM refuses it",
                "Remove it.",
            )
        elif name not in ("draft_tensor_parallel_size", "use_heterogeneous_vocab"):
            yield Problem(
                given.at(name), f"is not looked at by {given.method}: it is for {whom}", "Remove it.", "warning"
            )


def _draft_parallelism(given: Given) -> Iterator[Problem]:
    draft = given.values.get("draft_tensor_parallel_size")
    target = given.flag("tensor-parallel-size") or 1
    if draft is None:
        return
    keys = given.at("draft_tensor_parallel_size")
    if given.method is not None and given.method not in FIELDS["draft_tensor_parallel_size"].methods:
        yield Problem(keys, f"is not looked at: {given.method} has no weights to split", "Remove it.", "warning")
    elif given.method == "draft_model" and draft != target:
        what = f"draft_model takes the target's TP only: draft_tensor_parallel_size must be {target}, not {draft}"
        yield Problem(keys, what, "Leave it out: the target's is the default.")
    elif draft not in (1, target):
        allowed = "1" if target == 1 else f"1 or {target}"
        yield Problem(keys, f"is {draft}, and must be {allowed}: the target's tensor-parallel size is {target}")


def _draft_length(given: Given) -> Iterator[Problem]:
    draft, target = given.values.get("max_model_len"), given.flag("max-model-len")
    if draft is not None and target is not None and draft > target:
        yield Problem(given.at("max_model_len"), f"is {draft}, above the target's max_model_len, {target}", "Lower it.")
    elif draft is not None and target is not None and draft < target:
        what = f"is {draft}: sequences longer than that get no drafts, and the target takes {target}"
        yield Problem(given.at("max_model_len"), what, "Leave it out, unless that is what you want.", "warning")


def _vocabulary(given: Given) -> Iterator[Problem]:
    if given.values.get("use_heterogeneous_vocab") and given.values.get("draft_sample_method", "greedy") != "greedy":
        yield Problem(
            given.at("draft_sample_method"),
            "must be greedy beside use_heterogeneous_vocab",
            'Set "greedy", or remove it.',
        )
