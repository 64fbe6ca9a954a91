"""An answer's raw reads become a sample: what is a token chunk, when it came, and what went wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.core.samples import RequestSample, RequestSpecStats
from pytest_specdec.load.answer import Transfer, read_answer
from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.workload import Prompt

STREAMS = Path(__file__).parent.parent / "data" / "stream"
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}}
DONE = b"data: [DONE]\n\n"


def request() -> PlannedRequest:
    return PlannedRequest(index=4, prompt=Prompt(index=9, prompt="a", category="code"), due_s=1.5, max_tokens=8, seed=1)


def sample_of(reads: list[bytes], **transfer: Any) -> RequestSample:
    """Each read arrives one second after the one before, the first a second after the request was sent at 100 s."""
    timed = [(101.0 + place, piece) for place, piece in enumerate(reads)]
    return read_answer(Transfer(request(), sent=100.0, reads=timed, ended=500.0, **transfer), window_start=90.0)


def event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def text_chunk(text: str = "x", **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": None, **more}]})


def events_of(name: str) -> list[bytes]:
    return [part + b"\n\n" for part in (STREAMS / name).read_bytes().split(b"\n\n") if part.strip()]


def test_a_speculated_answer_has_several_tokens_in_a_chunk() -> None:
    sample = sample_of(events_of("eagle3_detailed.sse"))
    assert sample.error is None
    assert sample.chunk_tokens == (1, 4, 4, 1, 4, 1, 4, 4, 1)
    assert sample.completion_tokens == 24
    assert sample.token_ids is not None
    assert len(sample.token_ids) == 24
    assert sample.token_ids[:5] == (1604, 310, 24, 104, 727)
    assert sample.token_times_s == tuple(range(11, 20))
    assert (sample.prompt_tokens, sample.finish_reason) == (30, "length")


def test_the_servers_own_figures_are_kept() -> None:
    assert sample_of(events_of("eagle3_detailed.sse")).spec == RequestSpecStats(
        drafts=8,
        draft_tokens=24,
        accepted_tokens=18,
        accepted_per_step=(3, 3, 0, 3, 0, 3, 3, 3),
        drafted_per_step=(3,) * 8,
    )


def test_the_role_of_a_chat_is_no_token() -> None:
    sample = sample_of(events_of("eagle3_chat.sse"))
    assert sample.error is None
    assert list(sample.token_times_s) == [12, 13, 14]  # the role came at 11
    assert sample.chunk_tokens == (1, 4, 3)
    assert (sample.completion_tokens, sample.finish_reason) == (8, "stop")


def test_tokens_are_counted_by_the_server_and_not_by_chunks() -> None:
    sample = sample_of(events_of("ngram.sse"))
    assert sample.error is None
    assert sample.completion_tokens == 24
    assert len(sample.token_times_s) == 21  # many of them without text
    assert sample.chunk_tokens is None
    assert sample.token_ids is None
    assert sample.spec == RequestSpecStats(drafts=2, draft_tokens=6, accepted_tokens=3)


@pytest.mark.parametrize("name", ["eagle3_detailed.sse", "eagle3_chat.sse", "ngram.sse"])
def test_one_read_or_many_give_the_same_tokens(name: str) -> None:
    whole = (STREAMS / name).read_bytes()
    at_once = sample_of([whole])
    by_sevens = sample_of([whole[start : start + 7] for start in range(0, len(whole), 7)])
    assert at_once.token_ids == by_sevens.token_ids
    assert len(at_once.token_times_s) == len(by_sevens.token_times_s)
    assert at_once.error is by_sevens.error is None


def test_a_sample_names_its_request() -> None:
    sample = sample_of([text_chunk(), text_chunk(finish_reason="stop"), event(USAGE), DONE])
    assert (sample.index, sample.prompt, sample.category, sample.due_s) == (4, 9, "code", 1.5)
    assert sample.sent_s == 10


def test_an_end_token_without_text_is_a_chunk() -> None:
    sample = sample_of(
        [text_chunk(token_ids=[5]), text_chunk("", token_ids=[0], finish_reason="stop"), event(USAGE), DONE]
    )
    assert list(sample.token_times_s) == [11, 12]
    assert sample.token_ids == (5, 0)


@pytest.mark.parametrize(
    "delta",
    [{"role": "assistant", "content": "Hi"}, {"role": "assistant", "reasoning": "Hm"}, {"content": ""}, {}],
    ids=["content", "reasoning", "no role", "nothing"],
)
def test_only_the_bare_role_is_left_out(delta: dict[str, str]) -> None:
    first = event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert sample_of([first, last, event(USAGE), DONE]).token_times_s == (11, 12)


def test_only_the_first_chunk_may_be_a_bare_role() -> None:
    chunk = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    assert list(sample_of([chunk, chunk, event(USAGE), DONE]).token_times_s) == [12]


def test_a_role_chunk_with_token_ids_is_a_token() -> None:
    first = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "token_ids": [3]}]})
    assert sample_of([first, event(USAGE), DONE]).token_times_s == (11,)


def test_usage_in_every_chunk_is_read_from_the_last() -> None:
    growing = [
        event({"choices": [{"index": 0, "text": "x"}], "usage": {"prompt_tokens": 3, "completion_tokens": n}})
        for n in (1, 2)
    ]
    assert sample_of([*growing, DONE]).completion_tokens == 2


def test_token_ids_that_are_missing_once_are_not_known() -> None:
    sample = sample_of([text_chunk(token_ids=[5]), text_chunk(), event(USAGE), DONE])
    assert (sample.chunk_tokens, sample.token_ids) == (None, None)


@pytest.mark.parametrize(
    ("reads", "transfer", "error"),
    [
        ([], {"failure": "HTTP 400: too long"}, "HTTP 400: too long"),
        ([], {"failure": "connection refused", "disconnected": True}, "connection refused"),
        ([text_chunk()] * 3, {}, "stream cut after 3 chunks: it ended without [DONE]"),
        (
            [text_chunk()] * 2,
            {"failure": "connection reset by peer", "disconnected": True},
            "stream cut after 2 chunks: connection reset by peer",
        ),
        ([text_chunk()], {"failure": "no data for 120 s"}, "no data for 120 s"),
        ([event(USAGE), DONE], {}, "no token"),
        ([], {}, "no token"),
        ([b'{"object": "text_completion"}'], {}, "no token"),
        ([text_chunk(), DONE], {}, "no usage in the stream: the server did not say how many tokens it generated"),
        (
            [text_chunk(), event({"error": {"message": "engine dead", "code": 500}}), DONE],
            {},
            "error in the stream after 1 chunk: engine dead",
        ),
        ([event({"error": "out of memory"}), DONE], {}, "error in the stream after 0 chunks: out of memory"),
        (
            [text_chunk(finish_reason="abort"), event(USAGE), DONE],
            {},
            "the server gave the request up after 1 chunk (finish_reason 'abort')",
        ),
    ],
)
def test_failures_are_told_apart(reads: list[bytes], transfer: dict[str, Any], error: str) -> None:
    assert sample_of(reads, **transfer).error == error


@pytest.mark.parametrize("payload", ["[1]", "nonsense", '{"choices": [1]}', '{"choices": {"a": 1}}', '{"usage": {}}'])
def test_what_is_no_chunk_is_an_error_of_the_request(payload: str) -> None:
    error = sample_of([text_chunk(), f"data: {payload}\n\n".encode(), DONE]).error
    assert error is not None
    assert error.startswith("the stream holds something that is not a completion chunk")
