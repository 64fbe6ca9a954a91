"""Secrets in running text (log lines, error messages, result strings): found by their name, their shape, or their value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.masking import MASK, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LEAST_LENGTH = 6
"""Of a secret value that is looked for as it is: shorter ones turn up in innocent words."""
_INNOCENT = re.compile(r"[-+]?[\d.]{1,40}|none|true|false|null|auto|\*{3}", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(
    r"(?:bos|eos|pad|unk|sep|cls|mask|think|start|end|stop|image|audio|video|special)_token", re.IGNORECASE
)
"""Names of a tokenizer's own tokens."""

# Every repetition is bounded, so that no text takes long.
_URL_CREDENTIALS = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^/\s@\"']{1,500}@")
_HEADER = re.compile(
    r"(?P<name>\b(?:(?:proxy-)?authorization|(?:x-)?api-key|x-auth-token|(?:set-)?cookie)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)"
    r"(?:[A-Za-z]{1,20}[ \t]{1,4})?[^\s\"',;)}\]]{1,4000}",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"(?P<word>\bbearer[ \t]{1,4})(?!tokens?\b|auth\w{0,20}\b)[\w.~+/=-]{6,4000}", re.IGNORECASE | re.ASCII
)
_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,200}|sk-[\w-]{16,200}|gh[opsur]_[A-Za-z0-9]{20,200}|github_pat_\w{20,200}|glpat-[\w-]{16,200}"
    r"|nvapi-[\w-]{16,200}|xox[abpr]-[\w-]{10,200}|AKIA[A-Z0-9]{12,40}"
    r"|eyJ[\w-]{8,2000}\.[\w-]{8,2000}\.[\w-]{8,2000})",
    re.ASCII,
)
_NAMED = re.compile(
    r"(?<![\w-])(?P<name>-{0,2}[A-Za-z_][\w.-]{0,80})(?P<sign>=|[\"'][ \t]{0,4}:[ \t]{0,4})"
    r"(?P<value>\[[^\]\n]{0,2000}\]|\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'|[^\s,;&)\]}\"']{1,2000})",
    re.ASCII,
)
_FLAG_AND_VALUE = re.compile(
    r"(?P<flag>(?<![\w-])--[A-Za-z][\w-]{0,60})(?P<blank>[ \t]{1,4})(?P<value>(?!-)\S{1,2000})", re.ASCII
)


def masked_text(text: str, secrets: Sequence[str] = ()) -> str:
    """The text with secrets replaced by ``***``.

    Args:
        text: Of any length; multiple lines are fine.
        secrets: Values that are known to be secret, as :func:`secret_values` finds them.
    """
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
    text = _HEADER.sub(rf"\g<name>{MASK}", text)
    text = _BEARER.sub(rf"\g<word>{MASK}", text)
    text = _NAMED.sub(_without_value, text)
    text = _FLAG_AND_VALUE.sub(
        lambda found: f"{found['flag']}{found['blank']}{MASK}" if is_secret(found["flag"]) else found[0], text
    )
    return _SHAPE.sub(MASK, text)


def masked_data(data: Any, secrets: Sequence[str] = ()) -> Any:
    """JSON-like data whose strings went through :func:`masked_text`; keys stay, and so do lists of numbers, unread."""
    if isinstance(data, str):
        return masked_text(data, secrets)
    if isinstance(data, dict):
        return {key: masked_data(value, secrets) for key, value in data.items()}
    if isinstance(data, list | tuple):
        if data and isinstance(data[0], int | float):
            return data
        return [masked_data(value, secrets) for value in data]
    return data


def secret_values(argv: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The values of secret flags and secret variables, the longest first; they may turn up anywhere in what a process prints."""
    found = {value for name, value in env.items() if is_secret(name)}
    after_secret = False
    for word in (part for argument in argv for part in argument.split()):
        name, sign, value = word.partition("=")
        if sign and is_secret(name):
            found.add(value.strip("\"'"))
        elif after_secret and not word.startswith("-"):
            found.add(word.strip("\"'"))
            continue
        after_secret = word.startswith("-") and not sign and is_secret(word)
    known = {value for value in found if len(value) >= _LEAST_LENGTH and not _INNOCENT.fullmatch(value)}
    return tuple(sorted(known, key=lambda value: (-len(value), value)))


def _without_value(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    bare = value.strip("\"'[]")
    if not bare or not is_secret(name) or _INNOCENT.fullmatch(bare) or _SPECIAL_TOKEN.search(name):
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{found['sign']}{quote}{MASK}{quote}"
