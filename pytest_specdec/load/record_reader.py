"""What a record means: which of the known forms it has, and the conversation in it.

The form is told by the record's keys; the first usable record settles it for its file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.load.asked_reader import ASKED_KEYS, FORM_KEYS, checked_asked
from pytest_specdec.load.bad_lines import likely_columns
from pytest_specdec.load.prompt_reader import BadRecordError, Conversation, a_kind, counted, text_of
from pytest_specdec.load.record_checks import (
    MAX_TOKENS_KEYS,
    checked_category,
    checked_max_tokens,
    checked_messages,
    checked_text,
    refuse_placeholders,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMS = {
    "prompt": "prompt or messages",
    "messages": "prompt or messages",
    "conversations": "ShareGPT conversations",
    "body": "OpenAI Batch API",
    "turns": "Spec-Bench or MT-Bench turns",
}
"""The key that holds what is sent, and the name of the form."""
_COMPANIONS: dict[str, set[str]] = {
    "prompt": {*FORM_KEYS},
    "messages": {"question_id", *ASKED_KEYS},
    "conversations": {"id"},
    "body": {"custom_id", "method", "url"},
    "turns": {"question_id"},
}
"""Keys that belong to a form and say nothing about what is sent."""
USED_KEYS = frozenset({*_FORMS, "category", *MAX_TOKENS_KEYS, *(key for keys in _COMPANIONS.values() for key in keys)})
_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}
_MAX_NAMED_KEYS = 5


class RecordReader:
    """Turns the records of one file into conversations, and counts what it does not use."""

    def __init__(self, columns: Mapping[str, str], *, with_gaps: bool = False) -> None:
        """Reads records of one file.

        Args:
            columns: Our name to the file's.
            with_gaps: The data set is published with gaps; texts that still have one are refused.
        """
        self.form: str | None = None
        self._columns = columns
        self._with_gaps = with_gaps
        self._unused: Counter[str] = Counter()
        self._with_unused = 0

    def conversation(self, data: Any) -> Conversation:
        """What the record holds.

        Raises:
            BadRecordError: It cannot be used.
        """
        if not isinstance(data, dict):
            raise BadRecordError(f"{a_kind(data)}, not an object with 'prompt' or 'messages'")
        given = self._renamed(data)
        key = _form_key(given, data, columns=self._columns)
        form = _FORMS[key]
        if self.form is not None and form != self.form:
            raise BadRecordError(f"{key!r} ({form}) in a file of {self.form}")
        # Everything that can be wrong with the record is looked at before it is counted.
        found, inner_unused = self._content(key, given)
        self.form = form
        used = {"category", *MAX_TOKENS_KEYS, key} | _COMPANIONS.get(key, set())
        unused = {name for name, value in given.items() if name not in used and not (value is None and name in _FORMS)}
        unused |= inner_unused | (data.keys() & self._columns.keys() - set(self._columns.values()))
        self._unused.update(sorted(unused))
        self._with_unused += bool(unused)
        return found

    def notes(self) -> tuple[str, ...]:
        """Keys that were ignored."""
        if not self._with_unused:
            return ()
        ranked = self._unused.most_common()
        named = [f"{key!r} ({count})" for key, count in ranked[:_MAX_NAMED_KEYS]]
        if len(ranked) > _MAX_NAMED_KEYS:
            named.append(f"and {len(ranked) - _MAX_NAMED_KEYS} more")
        return (f"{counted(self._with_unused, 'record')} with keys that are not used: {', '.join(named)}",)

    def _renamed(self, data: dict[str, Any]) -> dict[str, Any]:
        """The record under our names; what a column stands for takes the place of a key of that name."""
        if not self._columns:
            return data
        taken = {*self._columns, *self._columns.values()}
        taken |= {name.partition(".")[0] for name in self._columns.values() if name not in data} - _FORMS.keys()
        given = {name: value for name, value in data.items() if name not in taken}
        for ours, theirs in self._columns.items():
            given[ours] = _looked_up(data, theirs)
        return given

    def _content(self, key: str, given: dict[str, Any]) -> tuple[Conversation, set[str]]:
        category = checked_category(given.get("category"))
        max_tokens = checked_max_tokens(given)
        if key == "prompt":
            text = checked_text(given["prompt"], "prompt")
            if self._with_gaps:
                refuse_placeholders(text, "prompt")
            asked = checked_asked(given, chat=False)
            return Conversation(prompt=text, category=category, max_tokens=max_tokens, asked=asked), set()
        if key == "body":
            return _of_body(given, category, max_tokens)
        if key == "turns":
            return self._of_turns(given["turns"], category, max_tokens), set()
        read = _sharegpt_messages if key == "conversations" else checked_messages
        messages = read(given[key], key)
        if self._with_gaps:
            for place, message in enumerate(messages):
                refuse_placeholders(text_of(message.get("content")), f"{key}[{place}].content")
        asked = checked_asked(given, chat=True) if key == "messages" else {}
        found = Conversation(messages=messages, category=category, max_tokens=max_tokens, asked=asked)
        if key == "conversations":
            found = replace(found, turns="first")
        elif len(messages) > 1 and all(message["role"] == "user" for message in messages) and self._is_test(given):
            found = replace(found, turns="first", answered=False)
        return found, set()

    def _is_test(self, given: dict[str, Any]) -> bool:
        """Whether a record is a question of a test set; SPEED-Bench's own script turns `turns` into messages without answers."""
        return self._with_gaps or "question_id" in given

    def _of_turns(self, turns: Any, category: str | None, max_tokens: int | None) -> Conversation:
        if not isinstance(turns, list) or not turns:
            raise BadRecordError("'turns' is empty" if turns == [] else f"'turns' is {a_kind(turns)}, not a list")
        texts = [checked_text(turn, f"turns[{place}]") for place, turn in enumerate(turns)]
        if self._with_gaps:
            for place, text in enumerate(texts):
                refuse_placeholders(text, f"turns[{place}]")
        messages = tuple({"role": "user", "content": text} for text in texts)
        return Conversation(messages=messages, category=category, max_tokens=max_tokens, turns="first", answered=False)


def _form_key(given: dict[str, Any], data: dict[str, Any], *, columns: Mapping[str, str]) -> str:
    renamed = columns.keys() & _FORMS.keys()
    present = [key for key in _FORMS if given.get(key) is not None]
    if renamed:
        present = [key for key in present if key in renamed]
    if len(present) > 1:
        raise BadRecordError(f"both {present[0]!r} and {present[1]!r}: which one is to be sent?")
    if present:
        return present[0]
    null = [key for key in _FORMS if key in given]
    if null:
        theirs = columns.get(null[0])
        missing = theirs is not None and theirs.partition(".")[0] not in data and theirs not in data
        raise BadRecordError(f"'{null[0]}' is null" + (f": there is no {theirs!r}{_found(data)}" if missing else ""))
    error = BadRecordError(f"neither 'prompt' nor 'messages'{_found(given)}" if given else "an empty object")
    error.columns = likely_columns(given)
    raise error


def _found(record: dict[str, Any]) -> str:
    keys = ", ".join(repr(key) for key in list(record)[:_MAX_NAMED_KEYS])
    return f" (found {keys})" if keys else ""


def _looked_up(data: dict[str, Any], name: str) -> Any:
    """A key as it stands, else a path of keys with dots."""
    if name in data:
        return data[name]
    value: Any = data
    for key in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _sharegpt_messages(value: Any, key: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list):
        raise BadRecordError(f"'{key}' is {a_kind(value)}, not a list")
    messages = []
    for place, turn in enumerate(value):
        if not isinstance(turn, dict):
            raise BadRecordError(f"'{key}[{place}]' is {a_kind(turn)}, not an object with 'from' and 'value'")
        speaker = turn.get("from")
        role = _SHAREGPT_ROLES.get(speaker) if isinstance(speaker, str) else None
        if role is None:
            said = repr(speaker) if isinstance(speaker, str) else a_kind(speaker)
            raise BadRecordError(f"'{key}[{place}].from' is {said}; known are {', '.join(_SHAREGPT_ROLES)}")
        text = turn.get("value")
        if role != "assistant" or (text is not None and text != ""):
            checked_text(text, f"{key}[{place}].value")
        messages.append({"role": role, "content": text or ""})
    if not messages:
        raise BadRecordError(f"'{key}' is empty")
    return tuple(messages)


def _of_body(given: dict[str, Any], category: str | None, max_tokens: int | None) -> tuple[Conversation, set[str]]:
    body, url = given["body"], given.get("url")
    if not isinstance(body, dict):
        raise BadRecordError(f"'body' is {a_kind(body)}, not an object")
    if isinstance(url, str) and not url.rstrip("/").endswith("/completions"):
        raise BadRecordError(f"'url' is {url!r}: only chat and plain completions can be sent")
    present = [key for key in ("messages", "prompt") if body.get(key) is not None]
    if len(present) != 1:
        raise BadRecordError(
            f"'body' has {'both' if present else 'neither'} 'messages' {'and' if present else 'nor'} 'prompt'"
        )
    stated = checked_max_tokens(body)
    if None not in (stated, max_tokens) and stated != max_tokens:
        raise BadRecordError("'max_tokens' and that of 'body' differ")
    asked = checked_asked(body, chat=present == ["messages"], within="body.")
    unused = {f"body.{name}" for name in body if name not in (*present, *MAX_TOKENS_KEYS, *ASKED_KEYS)}
    tokens = max_tokens if stated is None else stated
    if present == ["messages"]:
        messages = checked_messages(body["messages"], "body.messages")
        return Conversation(messages=messages, category=category, max_tokens=tokens, asked=asked), unused
    text = checked_text(body["prompt"], "body.prompt")
    return Conversation(prompt=text, category=category, max_tokens=tokens, asked=asked), unused
