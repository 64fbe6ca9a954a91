"""Whether a target can take the prompts of a workload, as far as that is certain without a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.config_paths import server_words
from pytest_specdec.core.model_paths import located
from pytest_specdec.core.server_flags import value_of
from pytest_specdec.serving.model_files import lacks_chat_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_specdec.core.config import SpecConfig


def obstacles(config: SpecConfig, lengths: Iterable[tuple[int, int]], *, chats: bool) -> Iterator[tuple[str, str]]:
    """What keeps prompts from being answered, and what to do.

    Args:
        config: Whose target and flags count.
        lengths: Of each prompt its words, each of which is at least one token, and the most tokens of its answer; without later turns of
            conversations, before which a server's own answers may stand, of unknown length.
        chats: Whether any of them is a chat.
    """
    words = (*server_words(config.command, config.folder), *server_words(config.serve, config.folder))
    limit = value_of(words, "max-model-len") or ""
    least, tokens = max(lengths, key=sum, default=(0, 0))
    if limit.isdecimal() and least + tokens > int(limit):
        answer = f", and up to {tokens} tokens are asked for" if tokens else ""
        yield (
            f"max_model_len is {limit}, and a prompt has at least {least} tokens (its words){answer}",
            "Raise max_model_len in `serve`, or take shorter prompts or a smaller max_tokens.",
        )
    folder = located(config.model, config.folder)
    own = value_of(words, "chat-template") is None and value_of(words, "tokenizer") is None
    if chats and own and folder is not None and lacks_chat_template(folder):
        yield (
            f"its lines are chats, and the tokenizer of {config.model} has no chat template",
            "Set chat_template in `serve`, or take a workload whose lines have `prompt` instead of `messages`.",
        )
