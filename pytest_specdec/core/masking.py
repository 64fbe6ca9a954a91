"""Secrets in what will be printed or written: command lines and environments with them taken out."""

from __future__ import annotations

import json
import re
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.server_flags import compact_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MASK = "***"
# As the end of a word of the name: HF_TOKEN, apiKey and --api-key are secret, --tokenizer, --ssl-keyfile and max_num_batched_tokens are not.
_SECRET_WORD = re.compile(
    r"(?:token|key|secret|secrets|password|passwords|passwd|passphrase|credential|credentials|authorization)$"
)
_URL_CREDENTIALS = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@\"']+@")
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]*)=(?P<value>.+)", re.DOTALL)
_SHELL_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\S)+")
_FLAG = re.compile(r"--?[A-Za-z]")


def is_secret(name: str) -> bool:
    """Whether the value behind this name (of a flag, a variable, a JSON key) must not be shown."""
    return any(_SECRET_WORD.search(word) for word in re.split(r"[^A-Za-z]+", name.lower()))


def masked_argv(argv: Iterable[str]) -> tuple[str, ...]:
    """The words of a command with secrets replaced by ``***``.

    Replaced are the values behind secret flags, values in ``NAME=value``, secrets inside JSON, and user and password of a URL;
    also inside a word that is itself a command (``bash -c "..."``).
    """
    masked: list[str] = []
    after_secret = False
    for word in argv:
        if _FLAG.match(word):
            after_secret = "=" not in word and is_secret(word)
            masked.append(_masked_word(word))
        else:
            masked.append(MASK if after_secret else _masked_word(word))
    return tuple(masked)


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables with the values of secret names replaced, and secrets inside other values too."""
    return {name: MASK if is_secret(name) and value else _masked_word(value) for name, value in env.items()}


def _masked_word(word: str) -> str:
    if word.lstrip().startswith(("{", "[")):
        try:
            data = json.loads(word)
            masked = _masked_data(data)
        except (ValueError, RecursionError):
            return _without_credentials(word)
        return _without_credentials(word if masked == data else compact_json(masked))
    assignment = _ASSIGNMENT.fullmatch(word)
    if assignment and not re.search(r"\s", assignment["name"]):
        value = MASK if is_secret(assignment["name"]) else _masked_word(assignment["value"])
        return f"{assignment['name']}={value}"
    if re.search(r"\s", word):
        blanks = _SHELL_WORD.split(word)
        return "".join(chain(*zip_longest(blanks, masked_argv(_SHELL_WORD.findall(word)), fillvalue="")))
    return _without_credentials(word)


def _masked_data(data: Any, *, secret: bool = False) -> Any:
    if isinstance(data, dict):
        return {key: _masked_data(value, secret=is_secret(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_masked_data(item, secret=secret) for item in data]
    return MASK if secret and isinstance(data, str) else data


def _without_credentials(text: str) -> str:
    return _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
