"""The JSON that the stand-in server sends: chunks, answers, usage, models and errors, in vLLM's form.

Everything is written compactly and in vLLM's order of keys, one ``data:`` line per chunk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.testing.simulation import token_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.testing.simulation import Oracle, Step

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Emission:
    """Tokens that reach the client together."""

    tokens: tuple[int, ...]
    finish_reason: str | None = None
    due_s: float = 0.0
    """On the schedule, since the request was admitted."""


@dataclass(frozen=True)
class Reply:
    """How the answer to one request is written."""

    id: str
    created_unix_s: int
    model: str
    chat: bool
    prompt_tokens: tuple[int, ...]
    with_token_ids: bool
    usage_in_every_chunk: bool = False
    logprobs: Logprobs | None = None
    json: bool = False
    """The words of the answer are a text in an object."""
    tool: str | None = None
    """They are an argument in a call of that tool."""
    broken: bool = False
    """Its last bracket is missing."""

    def role_chunk(self) -> bytes:
        """The first chunk of a chat: the role and no token."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        head = self._head() | {"choices": [choice]}
        if self.with_token_ids:
            head |= {"prompt_token_ids": list(self.prompt_tokens), "prompt_text": None}
        return sse(self._with_usage(head, 0))

    def chunk(self, emission: Emission, *, sent_before: int) -> bytes:
        """A chunk of tokens; ``sent_before`` tokens of the answer came in earlier ones."""
        first, last = sent_before == 0, emission.finish_reason == "stop"
        text = self._text(emission.tokens, first=first, last=last)
        ids = list(emission.tokens) if self.with_token_ids else None
        logprobs = self._logprobs(emission.tokens, sent_before)
        finish = emission.finish_reason
        choice: dict[str, Any]
        if self.chat:
            choice = {"index": 0, "delta": self._said(text, first=first), "logprobs": logprobs, "finish_reason": finish}
            choice |= {"stop_reason": None} if finish else {}
            choice |= {"token_ids": ids} if self.with_token_ids else {}
        else:
            choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish, "stop_reason": None}
            first = self.with_token_ids and sent_before == 0
            choice |= {"prompt_token_ids": list(self.prompt_tokens) if first else None, "token_ids": ids}
        head = self._head() | {"choices": [choice]}
        return sse(self._with_usage(head, sent_before + len(emission.tokens)))

    def usage_chunk(self, tokens: int, extra: Mapping[str, Any]) -> bytes:
        """The last data line before ``[DONE]``: usage, and no choice."""
        return sse({**self._head(), "choices": [], "usage": self._usage(tokens), **extra})

    def whole(self, tokens: Sequence[int], finish_reason: str, extra: Mapping[str, Any]) -> dict[str, Any]:
        """The answer without streaming."""
        text = self._text(tokens, first=True, last=finish_reason == "stop")
        ids = list(tokens) if self.with_token_ids else None
        prompt_ids = list(self.prompt_tokens) if self.with_token_ids else None
        logprobs = self._logprobs(tokens, 0)
        choice: dict[str, Any] = {"index": 0}
        choice |= {"message": {"role": "assistant", **self._said(text, first=True)}} if self.chat else {"text": text}
        choice |= {"logprobs": logprobs, "finish_reason": finish_reason, "stop_reason": None, "token_ids": ids}
        if not self.chat:
            choice |= {"prompt_logprobs": self.logprobs.of_prompt() if self.logprobs else None}
            choice |= {"prompt_token_ids": prompt_ids}
        body = self._head(streamed=False) | {"choices": [choice], "usage": self._usage(len(tokens))}
        if self.chat:
            body |= {"prompt_logprobs": None, "prompt_token_ids": prompt_ids}
        return {**body, **extra}

    def _text(self, tokens: Sequence[int], *, first: bool, last: bool) -> str:
        words = "".join(token_text(token) for token in tokens)
        if not self.json and self.tool is None:
            return words
        return ('{"text": "' if first else "") + words + ('"' + "}" * (not self.broken) if last else "")

    def _said(self, text: str, *, first: bool) -> dict[str, Any]:
        """What a message or a part of one holds: content, or a call whose name comes with its beginning."""
        if self.tool is None:
            return {"content": text}
        named = {"id": f"call_{self.id}", "type": "function"} if first else {}
        function = {"name": self.tool, "arguments": text} if first else {"arguments": text}
        return {"tool_calls": [{**named, "index": 0, "function": function}]}

    def _head(self, *, streamed: bool = True) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if self.chat else "text_completion"
        return {"id": self.id, "object": kind, "created": self.created_unix_s, "model": self.model}

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt = len(self.prompt_tokens)
        return {"prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens}

    def _with_usage(self, chunk: dict[str, Any], tokens: int) -> dict[str, Any]:
        return chunk | {"usage": self._usage(tokens)} if self.usage_in_every_chunk else chunk

    def _logprobs(self, tokens: Sequence[int], first_position: int) -> dict[str, Any] | None:
        if self.logprobs is None or self.logprobs.top is None:
            return None
        return self.logprobs.of_answer(tokens, first_position, chat=self.chat)


@dataclass(frozen=True)
class Logprobs:
    """Log-probabilities as the request asked for them."""

    oracle: Oracle
    offset: int
    """Tokens of the answer that the prompt already held."""
    prompt_tokens: tuple[int, ...]
    top: int | None
    """How many alternatives per token of the answer; None: none asked for."""
    prompt_top: int | None
    as_token_ids: bool
    """``token_id:17`` instead of the text."""

    def of_answer(self, tokens: Sequence[int], first_position: int, *, chat: bool) -> dict[str, Any]:
        """For generated tokens, in the form of the completions or of the chat API."""
        rows = []
        for index, token in enumerate(tokens):
            position = self.offset + first_position + index
            rows.append(
                (token, self.oracle.log_probability(position, token), self.oracle.best(position, self.top or 0))
            )
        if chat:
            return {
                "content": [{**self._chat(t, p), "top_logprobs": [self._chat(*b) for b in best]} for t, p, best in rows]
            }
        return {
            "text_offset": [0] * len(rows),
            "token_logprobs": [p for _, p, _ in rows],
            "tokens": [self._name(t) for t, _, _ in rows],
            "top_logprobs": [{self._name(t): p for t, p in [*best, (token, own)]} for token, own, best in rows],
        }

    def of_prompt(self) -> list[dict[str, Any] | None] | None:
        """``prompt_logprobs``: per prompt token the token itself and the best ones; None for the first."""
        if self.prompt_top is None:
            return None
        start = len(self.prompt_tokens) - self.offset
        rows: list[dict[str, Any] | None] = [None]
        for index, token in enumerate(self.prompt_tokens[1:], 1):
            if index < start:
                rows.append({str(token): {"logprob": -1.0, "rank": 1, "decoded_token": token_text(token)}})
                continue
            position = index - start
            listed = dict(
                [(token, self.oracle.log_probability(position, token)), *self.oracle.best(position, self.prompt_top)]
            )
            ranks = sorted(listed, key=lambda each: -listed[each])
            rows.append(
                {
                    str(each): {"logprob": p, "rank": ranks.index(each) + 1, "decoded_token": token_text(each)}
                    for each, p in listed.items()
                }
            )
        return rows

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self.as_token_ids else token_text(token)

    def _chat(self, token: int, logprob: float) -> dict[str, Any]:
        name = self._name(token)
        return {"token": name, "logprob": logprob, "bytes": list(name.encode())}


def speculation_of_request(steps: Sequence[Step], *, k: int, detailed: bool) -> dict[str, Any] | None:
    """``speculative_decoding`` of one request: what its drafting steps accepted, before the answer's end cut them."""
    drafting = [step for step in steps if step.drafted]
    if not drafting:
        return None
    accepted, drafted = sum(step.accepted for step in drafting), sum(step.drafted for step in drafting)
    histogram = [sum(step.accepted == count for step in drafting) for count in range(k + 1)]
    stats: dict[str, Any] = {
        "mean_acceptance_length": 1 + accepted / len(drafting),
        "draft_acceptance_rate": accepted / drafted,
        "acceptance_histogram": histogram,
        "num_spec_steps": len(drafting),
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": k,
    }
    if detailed:
        stats["per_step_accepted"] = [step.accepted for step in drafting]
        stats["per_step_drafted"] = [step.drafted for step in drafting]
    return stats


def error_body(message: str, *, kind: str, status: int) -> dict[str, Any]:
    """An error as vLLM words it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def stamp(emission: Emission) -> bytes:
    """A comment, which clients of server-sent events pass over: when the chunk that follows was due."""
    return f": due {1000 * emission.due_s:.6f} ms\n".encode()


def sse(data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
