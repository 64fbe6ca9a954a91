"""Conversations that continue with a server's own answers: kept together, one turn after the other, each with what was said before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.answer import Transfer, read_answer, text_of_answer
from pytest_specdec.load.arrivals import plan_requests
from pytest_specdec.load.workload import Workload, read_workload
from tests.load.stub_server import Stub, planned
from tests.load.test_window import errors, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.load.stub_server import Exchange

LOAD = LoadSpec(concurrency=2, num_requests=9)
CHAT = "/v1/chat/completions"


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """Three conversations of three turns, without recorded answers."""
    path = tmp_path / "turns.jsonl"
    lines = [{"turns": [f"c{c} t{t}" for t in range(3)], "category": "chat"} for c in range(3)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return read_workload(path, name="turns", options=WorkloadOptions(multi_turn="own"))


def test_conversations_stay_together_and_in_order(workload: Workload) -> None:
    plan = plan_requests(workload, LOAD, round_index=0, fresh=False)
    assert [request.prompt.turn for request in plan] == [0, 1, 2] * 3
    assert [request.after for request in plan] == [None, 0, 1, None, 3, 4, None, 6, 7]
    assert all(plan[i].prompt.conversation == plan[i - i % 3].prompt.conversation for i in range(9))


def test_the_last_conversation_may_be_cut(workload: Workload) -> None:
    plan = plan_requests(workload, replace(LOAD, num_requests=4), round_index=0, fresh=False)
    assert [request.prompt.turn for request in plan] == [0, 1, 2, 0]


def test_only_first_turns_have_an_arrival_time(workload: Workload) -> None:
    load = replace(LOAD, concurrency=None, request_rate=5.0)
    plan = plan_requests(workload, load, round_index=0, fresh=False)
    assert [request.due_s is None for request in plan] == [False, True, True] * 3


def test_rounds_of_their_own_prompts_are_refused(workload: Workload) -> None:
    with pytest.raises(WorkloadError, match="cannot be combined"):
        plan_requests(workload, replace(LOAD, num_requests=3), round_index=0, fresh=True)


def replying(exchange: Exchange) -> None:
    """Answers "re: " and what was said last, in two chunks."""
    last = json.loads(exchange.body)["messages"][-1]["content"]
    words = [
        {"delta": {"role": "assistant"}},
        {"delta": {"content": "re: "}, "token_ids": [1]},
        {"delta": {"content": last}, "token_ids": [2], "finish_reason": "stop"},
    ]
    events = [{"choices": [word]} for word in words] + [
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    ]
    exchange.stream(*(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), b"data: [DONE]\n\n")


@pytest.mark.parametrize("load", [LOAD, replace(LOAD, concurrency=None, request_rate=1000.0)], ids=["closed", "open"])
def test_a_turn_is_sent_with_the_servers_own_answers(stub: Stub, workload: Workload, load: LoadSpec) -> None:
    stub.routes[CHAT] = replying
    window = run(stub, plan_requests(workload, load, round_index=0, fresh=False), load)
    assert errors(window) == [None] * 9
    thirds = [seen.json["messages"] for seen in stub.seen_at(CHAT) if len(seen.json["messages"]) == 5]
    assert len(thirds) == 3
    for messages in thirds:
        assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
        assert messages[1]["content"] == f"re: {messages[0]['content']}"
        assert messages[3]["content"] == f"re: {messages[2]['content']}"


def test_samples_know_their_conversation(stub: Stub, workload: Workload) -> None:
    stub.routes[CHAT] = replying
    window = run(stub, plan_requests(workload, LOAD, round_index=0, fresh=False), LOAD)
    samples = [read_answer(transfer, window_start=window.started) for transfer in window.transfers]
    assert len({sample.content for sample in samples}) == 3
    assert len({sample.prompt for sample in samples}) == 9


def test_turns_after_a_failed_one_are_failures_too(stub: Stub, workload: Workload) -> None:
    stub.routes[CHAT] = lambda exchange: exchange.reply(500, "no")
    found = errors(run(stub, plan_requests(workload, LOAD, round_index=0, fresh=False), LOAD))
    assert [error for error in found if error is not None and error.startswith("HTTP 500")] == found[::3]
    assert found[1] == found[2] == "not sent: the turn before it failed"


def test_an_answer_that_cannot_be_understood_is_empty() -> None:
    transfer = Transfer(planned(1)[0], reads=[(0.0, b"data: {broken\n\n")])
    assert text_of_answer(transfer) == ""


@pytest.mark.parametrize("odd", [b"data: []\n\n", b'data: {"choices": [[]]}\n\n', b"data: {\n\n"])
def test_what_cannot_be_understood_ends_what_was_said(odd: bytes) -> None:
    transfer = Transfer(planned(1)[0])
    transfer.reads = [
        (0.0, b'data: {"choices": [{"delta": {"role": "assistant", "content": "Well"}}]}\n\n'),
        (1.0, odd),
    ]
    assert text_of_answer(transfer) == "Well"
    assert "is not a completion chunk" in str(read_answer(transfer, window_start=0.0).error)


def test_reasoning_and_calls_are_no_part_of_what_was_said() -> None:
    transfer = Transfer(planned(1)[0])
    deltas = ({"reasoning": "Hm."}, {"content": "Yes"}, {"tool_calls": [{"function": {"arguments": "{}"}}]})
    transfer.reads = [(0.0, f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode()) for delta in deltas]
    assert text_of_answer(transfer) == "Yes"
