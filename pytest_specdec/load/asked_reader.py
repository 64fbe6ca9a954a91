"""What a record asks of its answer beside the prompt: a form (``response_format``) or calls of tools, in the words of the request's body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.load.json_lines import json_value
from pytest_specdec.load.prompt_reader import BadRecordError, a_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM_KEYS = ("response_format", "structured_outputs")
"""OpenAI's and vLLM's way to ask for a form."""
TOOL_KEYS = ("tools", "tool_choice", "parallel_tool_calls")
ASKED_KEYS = (*FORM_KEYS, *TOOL_KEYS)
_CHOICES = ("none", "auto", "required")


def checked_asked(given: Mapping[str, Any], *, chat: bool, within: str = "") -> dict[str, Any]:
    """The keys of a record that are sent as they are.

    Tables hold them as text, so a text that should be an object or a list is read as JSON; an empty one asks for nothing.

    Args:
        given: The record, or the body in it.
        chat: Only chats can have tools.
        within: What stands before a key's name in an error, such as ``body.``.

    Raises:
        BadRecordError: A server would refuse them.
    """
    asked = {key: value for key in ASKED_KEYS if (value := _read(given.get(key), key, within)) not in (None, [], {})}
    for key in FORM_KEYS:
        if key in asked and not isinstance(asked[key], dict):
            raise BadRecordError(f"'{within}{key}' is {a_kind(asked[key])}, not an object")
    _check_format(asked.get("response_format"), within)
    if "tools" not in asked:
        # Without tools nothing is left to choose.
        return {key: value for key, value in asked.items() if key in FORM_KEYS}
    if not chat:
        raise BadRecordError(f"'{within}tools' beside 'prompt': only chats can have tools; write it as 'messages'")
    names = _checked_tools(asked["tools"], within)
    _check_choice(asked.get("tool_choice"), names, within)
    return asked


def _read(value: Any, key: str, within: str) -> Any:
    if not isinstance(value, str) or (key == "tool_choice" and value in _CHOICES):
        return value
    if not value.strip():
        return None
    try:
        return json_value(value, whole="text")
    except BadRecordError as error:
        raise BadRecordError(f"'{within}{key}' is a string, and {error}") from None


def _check_format(value: dict[str, Any] | None, within: str) -> None:
    if value is None:
        return
    if not isinstance(value.get("type"), str):
        raise BadRecordError(f"'{within}response_format' has no 'type', such as json_schema")
    if value["type"] != "json_schema":
        return
    inner = value.get("json_schema")
    if not isinstance(inner, dict) or not isinstance(inner.get("schema"), dict):
        raise BadRecordError(f"'{within}response_format.json_schema' has no 'schema' that is an object")


def _checked_tools(tools: Any, within: str) -> set[str]:
    """Their names."""
    if not isinstance(tools, list):
        raise BadRecordError(f"'{within}tools' is {a_kind(tools)}, not a list")
    names = set()
    for place, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not name:
            raise BadRecordError(f"'{within}tools[{place}]' has no 'function' with a 'name'")
        names.add(name)
    return names


def _check_choice(choice: Any, names: set[str], within: str) -> None:
    if choice is None or choice in _CHOICES:
        return
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in names:
        raise BadRecordError(
            f"'{within}tool_choice' is none of {', '.join(_CHOICES)}, and names no function of 'tools' ({', '.join(sorted(names))})"
        )
