"""The form that a request asks of its answer (JSON, one of several texts, calls of tools), and whether an answer has it.

A server enforces such a form while it samples, by a grammar. Speculation has to keep that grammar in step with drafts that are
accepted and rejected; where it does not, answers break as JSON first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_JSON_FORMATS = ("json_object", "json_schema")


@dataclass(frozen=True)
class AskedForm:
    """What an answer must be."""

    json: bool = False
    """JSON, of whatever schema."""
    choices: tuple[str, ...] = ()
    """One of these texts, where there are any."""
    tools: frozenset[str] = frozenset()
    """Names of the tools that may be called."""
    must_call: bool = False
    """At least one of them has to be."""

    @property
    def enforced(self) -> bool:
        """Whether a grammar decides which tokens are allowed."""
        return self.json or bool(self.choices) or self.must_call


@dataclass(frozen=True)
class ToolCall:
    """A call as an answer holds it."""

    name: str
    arguments: str
    """JSON, if all is well."""


def asked_form(asked: Mapping[str, Any]) -> AskedForm:
    """From the keys of a request's body; those of a kind that cannot be told from outside (a regular expression) ask for nothing."""
    structured = asked.get("structured_outputs") or {}
    choice = asked.get("tool_choice", "auto")
    tools = () if choice == "none" else asked.get("tools") or ()
    return AskedForm(
        json=(asked.get("response_format") or {}).get("type") in _JSON_FORMATS
        or structured.get("json") is not None
        or bool(structured.get("json_object")),
        choices=tuple(structured.get("choice") or ()),
        tools=frozenset(tool["function"]["name"] for tool in tools),
        must_call=bool(tools) and (choice == "required" or isinstance(choice, dict)),
    )


def has_form(form: AskedForm, content: str, calls: Sequence[ToolCall]) -> bool | None:
    """Whether an answer has the form that was asked for; None where none was.

    Args:
        form: What was asked for.
        content: The answer without its reasoning and its calls.
        calls: Of tools.
    """
    if calls:
        return all(call.name in form.tools and is_json(call.arguments) for call in calls)
    if form.must_call:
        return False
    if form.json:
        return is_json(content)
    return content in form.choices if form.choices else None


def is_json(text: str) -> bool:
    """Whether that is one JSON value and nothing else."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
