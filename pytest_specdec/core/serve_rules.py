"""Rules for everything that ends up on vLLM's command line: ``serve``, ``serve_specdec``, ``command``, ``stop_command``.

Both servers must differ in speculation and in nothing else, so flags that switch it on, and flags that the plugin itself
has to choose, are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import launcher
from pytest_specdec.core.server_flags import (
    API_SERVERS,
    PER_REQUEST,
    flag_of,
    option_of,
    speculates,
    value_of,
    words_of,
)
from pytest_specdec.core.spec_fields import V0_KEYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pytest_specdec.core.places import KeyPath

_ADDRESS = "the plugin picks the address, so that servers never collide"
_PLAIN_HTTP = "the plugin speaks plain HTTP to 127.0.0.1"
_CHOSEN_BY_US = {
    "model": "the target stands at the top of the file, as `model`",
    "model-tag": "the target stands at the top of the file, as `model`",
    "port": _ADDRESS,
    "host": _ADDRESS,
    "uds": _ADDRESS,
    "served-model-name": "the plugin picks a unique name, by which it knows its own servers",
    "api-key": "the plugin talks to its own servers, on 127.0.0.1, without one",
    "ssl-keyfile": _PLAIN_HTTP,
    "ssl-certfile": _PLAIN_HTTP,
}
_DEFAULTS = "override-generation-config"
_STOP_REMEDY = 'Add `stop_command`, such as ["docker", "rm", "-f", "{name}"], and `--name {name}` to `command`.'


@dataclass(frozen=True)
class Problem:
    """A finding before its file and line are known."""

    keys: KeyPath
    what: str
    remedy: str = ""
    severity: str = "error"


def serve_problems(key: str, value: Any) -> Iterator[Problem]:
    """What is wrong with ``serve`` or ``serve_specdec``.

    Args:
        key: Which of the two.
        value: As it stands in the file.
    """
    if isinstance(value, dict):
        yield from _mapping_problems(key, value)
        flags = [((key, name), words_of({name: setting})[0]) for name, setting in value.items()]
    elif isinstance(value, list):
        yield from _list_problems(key, value)
        flags = [((key, index), word) for index, word in enumerate(value) if isinstance(word, str)]
    else:
        yield Problem((key,), "must be an object of flags, or a list of words", "Such as {max_model_len: 8192}.")
        return
    for keys, word in flags:
        if fault := _chosen(word) or spoils(word, both=key == "serve"):
            yield Problem(keys, *fault)
    words = words_of(value) if isinstance(value, dict) else [word for _, word in flags]
    for fault in spoiling_values(words, both=key == "serve"):
        yield Problem((key,), *fault)


def _mapping_problems(key: str, flags: Mapping[str, Any]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, value in flags.items():
        option = option_of(flag_of(name))
        if option is None or "=" in name:
            yield Problem((key, name), "is not the name of a flag", "Write `flag: value`.")
            continue
        whole = option + name[name.find(".") :] if "." in name else option
        if whole in seen:
            yield Problem((key, name), f"is the same flag as {seen[whole]}", "Keep the one you mean.")
        seen[whole] = name
        if value == []:
            yield Problem((key, name), "is an empty list", "Leave the key out.")
        for item in value if isinstance(value, list) else ():
            if isinstance(item, bool | list) or item is None:
                yield Problem((key, name), "may hold text, numbers and objects, nothing else")
                break
            if isinstance(item, str) and item.startswith("-"):
                yield Problem((key, name), f'"{item}" starts with a hyphen, and vLLM would take it for the next flag')
                break


def _list_problems(key: str, words: list[Any]) -> Iterator[Problem]:
    for index, word in enumerate(words):
        if not isinstance(word, str):
            yield Problem((key, index), "must be text: a list of flags is passed on word by word", "Put it in quotes.")
        elif word.startswith("-") and option_of(word) is None and " " in word:
            yield Problem((key, index), "holds several words in one", "Make each word an entry of its own.")


def _chosen(word: str) -> tuple[str, str] | None:
    reason = _CHOSEN_BY_US.get(option_of(word) or "")
    return (f"must not be set here: {reason}", "Remove it.") if reason else None


def spoils(word: str, *, both: bool) -> tuple[str, str] | None:
    """Why a flag cannot stand on a server's command line, and what to do; None for other flags.

    Args:
        word: One word of the command line.
        both: Whether the baseline gets it too.
    """
    option = option_of(word)
    if option is None:
        return None
    if speculates(option):
        why = "the baseline would speculate too" if both else "speculation is set in one place only"
        return f"switches speculation on: {why}", "Move it into speculative_config."
    if option == "num-speculative-tokens" or option.replace("-", "_") in V0_KEYS:
        today = V0_KEYS.get(option.replace("-", "_"), "num_speculative_tokens")
        why = "is a flag that is gone since vLLM 0.9.0, which exits when it sees it"
        return why, f"Use speculative_config.{today}." if today else "Remove it: nothing took its place."
    if option.startswith("disable-log-stat") and not word.startswith("--no-"):
        return "removes every vllm: counter, and with them all figures about speculation", "Remove it."
    return None


def spoiling_values(words: Sequence[str], *, both: bool) -> Iterator[tuple[str, str]]:
    """Why the values that a command line gives to flags keep servers from starting or from answering, and what to do.

    Args:
        words: Of the command line.
        both: Whether the baseline gets them too.
    """
    if both and value_of(words, PER_REQUEST) not in (None, "none"):
        what = f"sets {PER_REQUEST}, and a server without speculation, which the baseline is, refuses to start with it"
        yield what, "Remove it: the plugin sets it on the speculating side, where vLLM has it."
    defaults = _request_defaults(words)
    for name in ("min_p", "logit_bias"):
        if str(defaults.get(name) or "0") not in ("0", "0.0"):
            what = f"sets {name} for every request, and with speculation vLLM answers such requests with HTTP 400"
            yield what, f"Remove {name} from {_DEFAULTS}."


def _request_defaults(words: Sequence[str]) -> dict[str, Any]:
    """What ``--override-generation-config`` sets, as one JSON value or member by member."""
    try:
        defaults = json.loads(value_of(words, _DEFAULTS) or "{}")
    except ValueError:
        defaults = {}
    found = dict(defaults) if isinstance(defaults, dict) else {}
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        head, _, value = word.partition("=")
        if option_of(head) == _DEFAULTS and "." in head:
            found[head.partition(".")[2]] = value or after
    return found


def command_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with ``command`` and ``stop_command``, and with ``devices`` beside a container."""
    words: dict[str, tuple[str, ...]] = {}
    for key in ("command", "stop_command"):
        if data.get(key) is not None:
            try:
                words[key] = launcher.split_command(data[key])
            except ValueError as error:
                yield Problem((key,), str(error), "Such as [vllm, serve].")
    command = words.get("command")
    if command is None:
        return
    inner = {part for word in command for part in (word, *word.split())}
    yield from _word_problems(inner)
    if model := launcher.model_inside(command):
        yield Problem(("command",), f"names a model, {model}: the plugin adds it", "Let the command end in `serve`.")
    if launcher.SERVER_MODULE in inner:
        yield from _ignored_servers({**data, "command": list(command)})
    if launcher.starts_container(command):
        yield from _container_problems(command, data)


def _word_problems(words: Collection[str]) -> Iterator[Problem]:
    for word in sorted(words):
        fault = spoils(word, both=True)
        if fault is None and option_of(word) in ("model", "port", "served-model-name", "uds"):
            fault = _chosen(word)
        if fault:
            yield Problem(("command",), f"{word.split('=')[0]} {fault[0]}", fault[1])


def _ignored_servers(data: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ("command", "serve", "serve_specdec"):
        given: Sequence[Any] = words_of(data[key]) if isinstance(data.get(key), dict | list) else ()
        if value_of([word for word in given if isinstance(word, str)], API_SERVERS) not in (None, "1"):
            what = f"--{API_SERVERS} is ignored by {launcher.SERVER_MODULE}, which starts one API server"
            yield Problem((key,), what, "Let `command` be [vllm, serve].", "warning")


def _container_problems(command: tuple[str, ...], data: Mapping[str, Any]) -> Iterator[Problem]:
    if data.get("stop_command") is None:
        what = "starts a container, and killing the client leaves the container and its GPU memory behind"
        yield Problem(("command",), what, _STOP_REMEDY)
    if "run" in command and not launcher.names_network(command):
        what = "starts a container that cannot be reached: vLLM listens on 127.0.0.1, at a port picked for each start"
        yield Problem(("command",), what, "Add `--network host`.")
    if data.get("devices") is not None:
        what = "cannot be passed into a container: CUDA_VISIBLE_DEVICES would only reach its client"
        yield Problem(("devices",), what, "Remove it, and name the devices in `command`.")
    if isinstance(data.get("env"), dict):
        passed = " ".join(command)
        hidden = [name for name in data["env"] if name not in passed]
        if hidden:
            what = f"reaches the container's client only, not the container: {', '.join(hidden)}"
            yield Problem(("env",), what, f"Add `-e {hidden[0]}` to `command`.", "warning")
