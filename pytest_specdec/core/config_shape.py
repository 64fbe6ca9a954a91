"""A file's data against the shape of an envelope, with pydantic's errors put into the words of a config's author."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pytest_specdec.core.config_rules import shown
from pytest_specdec.core.config_schema import Envelope, known_keys
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from pytest_specdec.core.places import KeyPath

_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "text",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
}
_HINTS = {
    "method": "It belongs inside speculative_config.",
    "num_speculative_tokens": "It belongs inside speculative_config.",
    "target": "The target's key is `model`.",
    "target_model": "The target's key is `model`.",
    "draft_model": "The draft's key is `model` inside speculative_config.",
}


def shape_problems(data: Mapping[str, Any]) -> tuple[Envelope | None, list[Problem]]:
    """The envelope, or everything that is wrong with types, bounds and names of keys."""
    try:
        # As JSON, because strict types mean there what a file's author means: lists are lists, 4 is a number, true is none.
        return Envelope.model_validate_json(json.dumps(data)), []
    except ValidationError as errors:
        details = errors.errors(include_url=False)
    # A list with a wrong item is also too short for pydantic.
    around = {error["loc"][:end] for error in details for end in range(1, len(error["loc"]))}
    # speculative_config is judged by a rule, which says more than "missing".
    return None, [_problem(error) for error in details if error["loc"] not in {("speculative_config",), *around}]


def _problem(error: ErrorDetails) -> Problem:
    keys: KeyPath = error["loc"]
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    named = keys[-1:] == ("[key]",)  # pydantic's word for a key of a mapping whose names are known
    if named or kind == "extra_forbidden":
        return _unknown(keys[:-1] if named else keys)
    if kind == "missing":
        return Problem(keys, "is missing")
    if kind in ("too_short", "string_too_short"):
        return Problem(keys, "must not be empty")
    if kind == "literal_error":
        choices = [choice.strip("' ") for choice in str(context["expected"]).replace(" or ", ",").split(",")]
        meant = did_you_mean(value, choices) if isinstance(value, str) else None
        remedy = f"Did you mean {meant!r}?" if meant else ""
        return Problem(keys, f"must be {context['expected']}, not {shown(value)}", remedy)
    wanted = _WANTED.get(kind)
    if wanted is None:
        return Problem(keys, error["msg"])
    return Problem(keys, f"must be {wanted.format(**context)}, not {shown(value)}")


def _unknown(keys: KeyPath) -> Problem:
    name = str(keys[-1])
    known = known_keys(keys[:-1])
    if len(keys) == 1 and name in _HINTS:
        return Problem(keys, "is no key of an envelope", _HINTS[name])
    if meant := did_you_mean(name, known):
        return Problem(keys, "is not a known key", f"Did you mean {meant!r}?")
    beside = " vLLM's flags go into `serve`, speculation into `speculative_config`." if len(keys) == 1 else ""
    return Problem(keys, "is not a known key", f"Known are {', '.join(known)}.{beside}")
