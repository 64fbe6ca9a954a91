"""From the raw reads of one answer to a :class:`RequestSample`. Done after the window, so that it costs no time in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.answer_form import form_of
from pytest_specdec.core.asked_form import ToolCall, asked_form
from pytest_specdec.core.samples import RequestSample, RequestSpecStats
from pytest_specdec.load.sse import SseParser

if TYPE_CHECKING:
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.connection import Reads
    from pytest_specdec.load.shelf import Shelved

_DONE = b"[DONE]"
TOKEN_ID = "token_id:"  # noqa: S105 - what return_tokens_as_token_ids puts before a token's number
_FAILED_FINISHES = frozenset({"abort", "error"})


@dataclass
class Transfer:
    """One request under way: filled by the client while bytes arrive. Times are ``time.perf_counter()``."""

    request: PlannedRequest
    sent: float = 0.0
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    """Time of each read from the socket, and what it brought."""
    ended: float | None = None
    """When the transfer ended, however it did; None while it is under way."""
    failure: str | None = None
    """What went wrong below the stream: refused, reset, HTTP status, no data."""
    disconnected: bool = False
    """The failure is that of the connection."""
    shelved: Shelved | None = None
    """Where the reads are instead, once there are many of them."""

    def all_reads(self) -> Reads:
        """The reads, wherever they are."""
        return self.reads if self.shelved is None else self.shelved.reads()


@dataclass
class _Stream:
    """What the events of one answer say."""

    times: list[float] = field(default_factory=list)
    chunk_tokens: list[int | None] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    spec: RequestSpecStats | None = None
    error: str | None = None
    done: bool = False
    seen_choices: bool = False
    text: list[str] = field(default_factory=list)
    """Whatever was written, reasoning and calls included. Looked at once, and not kept."""
    content: list[str] = field(default_factory=list)
    """What a conversation would keep of it."""
    calls: dict[int, tuple[list[str], list[str]]] = field(default_factory=dict)
    """Calls of tools: parts of the name, and parts of the arguments."""


def read_answer(transfer: Transfer, *, window_start: float) -> RequestSample:
    """The sample of a finished transfer; its times count from ``window_start``.

    A token chunk is an event with choices, whatever its text, except the first one of a chat when it brings only the
    role. It is timed by the read that completed it. Token counts come from the server's usage.
    """
    request = transfer.request
    stream, problem = _understood(transfer)
    ids_known = bool(stream.times) and None not in stream.chunk_tokens
    failure = problem or _error(transfer, stream)
    form = None
    if failure is None:
        tokens = stream.token_ids if ids_known else None
        form = form_of(
            "".join(stream.text),
            tokens,
            cut=stream.finish_reason == "length",
            asked=asked_form(request.prompt.asked),
            content="".join(stream.content),
            calls=[ToolCall("".join(name), "".join(arguments)) for name, arguments in stream.calls.values()],
        )
    return RequestSample(
        index=request.index,
        prompt=request.prompt.index,
        category=request.prompt.category,
        conversation=request.prompt.conversation,
        due_s=request.due_s,
        sent_s=transfer.sent - window_start,
        token_times_s=tuple(time - window_start for time in stream.times),
        chunk_tokens=tuple(count for count in stream.chunk_tokens if count is not None) if ids_known else None,
        prompt_tokens=stream.prompt_tokens,
        completion_tokens=stream.completion_tokens or 0,
        finish_reason=stream.finish_reason,
        token_ids=tuple(stream.token_ids) if ids_known else None,
        spec=stream.spec,
        error=failure,
        form=form,
    )


def text_of_answer(transfer: Transfer) -> str:
    """What the server said, for whoever continues the conversation; as far as it can be understood."""
    return "".join(_understood(transfer)[0].content)


def _understood(transfer: Transfer) -> tuple[_Stream, str | None]:
    """What the stream says, and what of it is no completion chunk."""
    stream = _Stream()
    try:
        _read_stream(transfer, stream)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return stream, f"the stream holds something that is not a completion chunk: {type(error).__name__}: {error}"
    return stream, None


def _error(transfer: Transfer, stream: _Stream) -> str | None:
    """Why the request counts as failed, the earliest cause first."""
    chunks = _chunks(stream)
    if stream.error is not None:
        return f"error in the stream after {chunks}: {stream.error}"
    if transfer.failure is not None:
        cut = transfer.disconnected and transfer.reads
        return f"stream cut after {chunks}: {transfer.failure}" if cut else transfer.failure
    return _incomplete(stream)


def _incomplete(stream: _Stream) -> str | None:
    """What is missing in a stream that ended by itself; None for a whole answer."""
    chunks = _chunks(stream)
    if not stream.done and stream.seen_choices:
        return f"stream cut after {chunks}: it ended without [DONE]"
    if not stream.times:
        return "no token"
    if stream.completion_tokens is None:
        return "no usage in the stream: the server did not say how many tokens it generated"
    if stream.finish_reason in _FAILED_FINISHES:
        return f"the server gave the request up after {chunks} (finish_reason {stream.finish_reason!r})"
    return None


def _chunks(stream: _Stream) -> str:
    return "1 chunk" if len(stream.times) == 1 else f"{len(stream.times)} chunks"


def _read_stream(transfer: Transfer, stream: _Stream) -> None:
    parser = SseParser()
    for time, piece in transfer.all_reads():
        for payload in parser.feed(piece):
            if payload == _DONE:
                stream.done = True
            elif payload:
                _read_event(json.loads(payload), time, stream)


def _read_event(event: dict[str, Any], time: float, stream: _Stream) -> None:
    if (error := event.get("error")) is not None:
        stream.error = stream.error or message_of(error)
        return
    if choices := event.get("choices"):
        choice = choices[0]
        role_only = not stream.seen_choices and _is_role_only(choice)
        stream.seen_choices = True
        if not role_only:
            ids = choice.get("token_ids")
            ids = _ids_of_logprobs(choice.get("logprobs")) if ids is None else ids
            stream.times.append(time)
            stream.text.append(_text(choice))
            stream.content.append((choice.get("delta") or choice).get("content") or choice.get("text") or "")
            _read_calls(choice, stream)
            stream.chunk_tokens.append(None if ids is None else len(ids))
            stream.token_ids.extend(ids or ())
            stream.finish_reason = choice.get("finish_reason") or stream.finish_reason
    # vLLM can be made to send usage with every chunk; the last one stands.
    if (usage := event.get("usage")) is not None:
        stream.prompt_tokens = usage.get("prompt_tokens")
        stream.completion_tokens = usage["completion_tokens"]
    if (spec := (event.get("metrics") or {}).get("speculative_decoding")) is not None:
        stream.spec = _spec_stats(spec)


def _text(choice: dict[str, Any]) -> str:
    """The text of a chunk, whatever it is part of: content, reasoning or the arguments of a tool call."""
    delta = choice.get("delta")
    if delta is None:
        return choice.get("text") or ""
    calls = [call.get("function") or {} for call in delta.get("tool_calls") or ()]
    parts = [delta.get("content"), delta.get("reasoning"), delta.get("reasoning_content")]
    return "".join(part for part in [*parts, *(call.get("arguments") for call in calls)] if part)


def _read_calls(choice: dict[str, Any], stream: _Stream) -> None:
    """Parts of calls: the name comes once, the arguments piece by piece."""
    for call in (choice.get("delta") or {}).get("tool_calls") or ():
        name, arguments = stream.calls.setdefault(call.get("index") or 0, ([], []))
        function = call.get("function") or {}
        name.append(function.get("name") or "")
        arguments.append(function.get("arguments") or "")


def _is_role_only(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if not delta or choice.get("token_ids") or choice.get("finish_reason"):
        return False
    return "role" in delta and not any(value for key, value in delta.items() if key != "role")


def _ids_of_logprobs(logprobs: Any) -> list[int] | None:
    """Token ids from logprobs that name their tokens ``token_id:17``, of a server or proxy that sends no token ids; else None."""
    if not isinstance(logprobs, dict):
        return None
    names = [entry.get("token") for entry in logprobs["content"]] if "content" in logprobs else logprobs.get("tokens")
    if not names or not all(isinstance(name, str) and name.startswith(TOKEN_ID) for name in names):
        return None
    return [int(name.removeprefix(TOKEN_ID)) for name in names]


def _spec_stats(spec: dict[str, Any]) -> RequestSpecStats:
    accepted, drafted = spec.get("per_step_accepted"), spec.get("per_step_drafted")
    return RequestSpecStats(
        drafts=spec["num_spec_steps"],
        draft_tokens=spec["num_draft_tokens"],
        accepted_tokens=spec["num_accepted_draft_tokens"],
        accepted_per_step=None if accepted is None else tuple(accepted),
        drafted_per_step=None if drafted is None else tuple(drafted),
    )


def message_of(error: Any) -> str:
    """The text of an error object as vLLM and OpenAI send it, or of whatever stands in its place."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return str(error)
