"""A generation request as the stand-in server understands it: body of ``/v1/completions`` or ``/v1/chat/completions``."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.testing.simulation import split_context, tokens_of_chat, tokens_of_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.testing.flags import Launch

_DEFAULT_COMPLETION_TOKENS = 16


class BadRequestError(ValueError):
    """What vLLM answers with HTTP 400, or 404 for an unknown model."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True)
class Generation:
    """What one request asks for."""

    chat: bool
    prompt_text: str
    """Empty where the prompt came as token ids."""
    prompt_tokens: tuple[int, ...]
    question: tuple[int, ...]
    """The prompt without the part of an answer that it may end with."""
    answered: int
    """Tokens of that part."""
    max_tokens: int
    ignore_eos: bool
    sampling_seed: int | None
    """None for greedy decoding."""
    temperature: float
    stream: bool
    include_usage: bool
    usage_in_every_chunk: bool
    return_token_ids: bool
    top_logprobs: int | None
    top_prompt_logprobs: int | None
    logprobs_as_token_ids: bool
    json: bool
    """The answer has to be JSON."""
    tool: str | None
    """Name of the tool that is called: the one that has to be, or the first."""


def read_generation(body: Any, *, chat: bool, launch: Launch, speculating: bool) -> Generation:
    """Check a request's body.

    Raises:
        BadRequestError: Where vLLM would refuse it too.
    """
    if not isinstance(body, dict):
        raise BadRequestError("the body must be a JSON object")
    if body.get("model", launch.served_name) != launch.served_name:
        message = f"The model `{body['model']}` does not exist."
        raise BadRequestError(message, status=404, kind="NotFoundError")
    prompt = _chat_prompt(body) if chat else _completion_prompt(body)
    room = launch.max_model_len - len(prompt)
    max_tokens = _max_tokens(body, chat=chat, room=room)
    if max_tokens > room:
        raise BadRequestError(
            f"This model's maximum context length is {launch.max_model_len} tokens. However, you requested {max_tokens} "
            f"output tokens and your prompt contains {len(prompt)} input tokens."
        )
    if body.get("n", 1) != 1:
        raise BadRequestError("the stand-in server only knows n=1")
    if speculating and (body.get("min_p") or body.get("logit_bias")):
        raise BadRequestError(
            "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )
    temperature = _temperature(body)
    question, answered = split_context(prompt)
    options = body.get("stream_options") or {}
    return Generation(
        chat=chat,
        prompt_text=_prompt_text(body, chat=chat),
        prompt_tokens=prompt,
        question=question,
        answered=len(answered),
        max_tokens=max_tokens,
        ignore_eos=bool(body.get("ignore_eos", False)),
        sampling_seed=_sampling_seed(body, temperature),
        temperature=temperature,
        stream=bool(body.get("stream", False)),
        include_usage=bool(options.get("include_usage", False)),
        usage_in_every_chunk=bool(options.get("include_usage")) and bool(options.get("continuous_usage_stats")),
        return_token_ids=bool(body.get("return_token_ids", False)),
        top_logprobs=_top_logprobs(body, chat=chat),
        top_prompt_logprobs=body.get("prompt_logprobs"),
        logprobs_as_token_ids=bool(body.get("return_tokens_as_token_ids", False)),
        json=_asks_for_json(body),
        tool=_tool(body, launch) if chat else None,
    )


def _asks_for_json(body: Mapping[str, Any]) -> bool:
    formats = ("json_object", "json_schema")
    structured = body.get("structured_outputs") or {}
    return (body.get("response_format") or {}).get("type") in formats or bool(structured.get("json"))


def _tool(body: Mapping[str, Any], launch: Launch) -> str | None:
    tools, choice = body.get("tools"), body.get("tool_choice", "auto")
    if not tools or choice == "none":
        return None
    if "tool_call_parser" not in launch.given:
        if choice == "auto":
            raise BadRequestError(
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            )
        raise BadRequestError(f"tool_choice={choice!r} requires --tool-call-parser to be set")
    return str((choice if isinstance(choice, dict) else tools[0])["function"]["name"])


def _completion_prompt(body: Mapping[str, Any]) -> tuple[int, ...]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return tokens_of_text(prompt) or tokens_of_text(".")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return tuple(prompt)
    raise BadRequestError("prompt must be one string or one list of token ids")


def _chat_prompt(body: Mapping[str, Any]) -> tuple[int, ...]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise BadRequestError("messages must be a list of objects with role and content")
    return tokens_of_chat([(str(each.get("role", "")), _content(each.get("content"))) for each in messages])


def _prompt_text(body: Mapping[str, Any], *, chat: bool) -> str:
    if chat:
        return "\n".join(_content(each.get("content")) for each in body["messages"])
    prompt = body["prompt"][0] if isinstance(body["prompt"], list) else body["prompt"]
    return prompt if isinstance(prompt, str) else ""


def _content(content: Any) -> str:
    """Text of a message: a string, or the ``text`` parts of a list."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _max_tokens(body: Mapping[str, Any], *, chat: bool, room: int) -> int:
    value = body.get("max_completion_tokens") if chat else None
    value = body.get("max_tokens") if value is None else value
    if value is None:
        value = room if chat else min(_DEFAULT_COMPLETION_TOKENS, room)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequestError(f"max_tokens must be at least 1, got {value}.")
    return value


def _temperature(body: Mapping[str, Any]) -> float:
    temperature = body.get("temperature")
    temperature = 1.0 if temperature is None else temperature
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or temperature < 0:
        raise BadRequestError(f"temperature must be non-negative, got {temperature}.")
    return float(temperature)


def _sampling_seed(body: Mapping[str, Any], temperature: float) -> int | None:
    if temperature == 0:
        return None
    seed = body.get("seed")
    return secrets.randbits(32) if seed is None else int(seed)


def _top_logprobs(body: Mapping[str, Any], *, chat: bool) -> int | None:
    asked = body.get("logprobs")
    if chat:
        return int(body.get("top_logprobs") or 0) if asked else None
    return None if asked is None or asked is False else int(asked)
