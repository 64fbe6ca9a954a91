"""Whether the parts of a record are what they must be before anything is sent."""

from __future__ import annotations

import re
from typing import Any

from pytest_specdec.load.prompt_reader import BadRecordError, a_kind, text_of

MAX_TOKENS_KEYS = ("max_tokens", "max_completion_tokens", "output_tokens")
"""One thing under OpenAI's two names and vLLM's (``--dataset-name custom``)."""
_FETCHED_ELSEWHERE = "FULL BENCHMARK DATA SHOULD BE FETCHED"
"""SPEED-Bench ships rows whose text must be fetched from its source; this is what stands there until then."""
_ONLY_A_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}|[<\[{]?[A-Z_]*PLACEHOLDER[A-Z_0-9]*[>\]}]?")
# Not \text{{x}} of a formula, nor {{ user.name }} of a template that a question is about.
_HOLDS_A_PLACEHOLDER = re.compile(r"(?<![\w}])\{\{\s*\w+\s*\}\}|\b[A-Z_]*PLACEHOLDER[A-Z_0-9]*\b")
_SHOWN = 60


def checked_text(value: Any, key: str) -> str:
    """A text that can be sent.

    Raises:
        BadRecordError: It is not a string, empty, not UTF-8, or a placeholder that was never filled.
    """
    if not isinstance(value, str):
        raise BadRecordError(f"'{key}' is {a_kind(value)}, not a string")
    if not value.strip():
        raise BadRecordError(f"'{key}' is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRecordError(f"'{key}' holds half a surrogate pair, which cannot be sent as UTF-8") from None
    if _FETCHED_ELSEWHERE in value or _ONLY_A_PLACEHOLDER.fullmatch(value.strip()):
        raise BadRecordError(f"'{key}' is a placeholder that was not filled: {value.strip()[:_SHOWN]!r}")
    return value


def refuse_placeholders(text: str, key: str) -> None:
    """For data sets that come with gaps to be filled: no gap may be left.

    Raises:
        BadRecordError: ``{{...}}`` or a word with PLACEHOLDER stands somewhere in the text.
    """
    if found := _HOLDS_A_PLACEHOLDER.search(text):
        raise BadRecordError(f"'{key}' holds a placeholder that was not filled: {found[0][:_SHOWN]!r}")


def checked_messages(value: Any, key: str) -> tuple[dict[str, Any], ...]:
    """A chat, answers included.

    Raises:
        BadRecordError: It is not a list of messages of text.
    """
    if not isinstance(value, list):
        raise BadRecordError(f"'{key}' is {a_kind(value)}, not a list")
    for place, message in enumerate(value):
        _check_message(message, f"{key}[{place}]")
    if not value:
        raise BadRecordError(f"'{key}' is empty")
    return tuple(value)


def _check_message(message: Any, place: str) -> None:
    if not isinstance(message, dict):
        raise BadRecordError(f"'{place}' is {a_kind(message)}, not an object with 'role' and 'content'")
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise BadRecordError(f"'{place}' has no 'role'")
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise BadRecordError(f"'{place}.content' has a part that is not text")
        content = text_of(content)
    if message["role"] == "assistant" and (content is None or content == ""):
        return  # a turn of tool calls only, or an answer that will be cut
    checked_text(content, f"{place}.content")


def checked_category(value: Any) -> str | None:
    """The category of a record, None without one.

    Raises:
        BadRecordError: It is no string.
    """
    if value is not None and not isinstance(value, str):
        raise BadRecordError(f"'category' is {a_kind(value)}, not a string")
    return value or None


def checked_max_tokens(data: dict[str, Any]) -> int | None:
    """What a record states about the length of its answer, None where it states nothing.

    Raises:
        BadRecordError: It is no whole number from 1, or its names contradict each other.
    """
    stated = {key: data[key] for key in MAX_TOKENS_KEYS if data.get(key) is not None}
    for key, value in stated.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadRecordError(f"'{key}' is {a_kind(value)}, not a whole number")
        if value < 1:
            raise BadRecordError(f"'{key}' is {value}, must be at least 1")
    if len(set(stated.values())) > 1:
        raise BadRecordError(f"{' and '.join(map(repr, stated))} differ, and mean the same")
    return next(iter(stated.values()), None)
