"""``command`` and ``stop_command``: words from what the user wrote, and what kind of launcher they are."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
"""Starts one server, whichever distribution of vLLM it comes from."""
_CONTAINER_PROGRAMS = {"docker", "podman", "nerdctl"}
_CONTAINER_STARTS = {"run", "exec", "start"}


def split_command(value: Any) -> tuple[str, ...]:
    """The words of a command given as a list of words, or as one text that is split as a shell would.

    Raises:
        ValueError: It is neither, or there are no words; the message says what is wrong.
    """
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"cannot be split into words ({str(error).lower()})") from None
    elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        raise ValueError("must be a list of words (all of them text) or one text")
    if not words or not all(words):
        raise ValueError("is empty" if not words else "holds an empty word")
    return words


def starts_container(command: Sequence[str]) -> bool:
    """Whether the process that is started is only the client of a container."""
    words = [word for word in command if word != "sudo"]
    return (
        bool(words) and PurePath(words[0]).name in _CONTAINER_PROGRAMS and not _CONTAINER_STARTS.isdisjoint(words[1:])
    )


def names_network(command: Sequence[str]) -> bool:
    """Whether a container command says which network the container is on."""
    return any(word.split("=")[0] in ("--network", "--net") for word in command)


def takes_model_as_word(command: Sequence[str]) -> bool:
    """Whether the model follows the command as a word of its own (``vllm serve M``) instead of behind ``--model``."""
    return command[-1] == "serve"


def model_inside(command: Sequence[str]) -> str | None:
    """The model that a command already names behind ``vllm serve``, if it does."""
    for before, word, after in zip(command, command[1:], command[2:], strict=False):
        if PurePath(before).name == "vllm" and word == "serve" and not after.startswith("-"):
            return after
    return None
