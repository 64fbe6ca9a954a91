"""Forms and tools that a workload's lines ask for: read, checked, sent, and found again in answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.answer import Transfer, read_answer
from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.client import prepare
from pytest_specdec.load.workload import Workload, read_workload
from pytest_specdec.load.workload_summary import Tally

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.prompt_reader import Prompt

HELLO = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def call(*records: dict[str, Any], **options: Any) -> Workload:
        path = tmp_path / "asked.jsonl"
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        return read_workload(path, name="asked", options=WorkloadOptions(**options))

    return call


def sent(prompt: Prompt) -> dict[str, Any]:
    request = PlannedRequest(index=0, prompt=prompt, due_s=None, max_tokens=8, seed=1)
    body: dict[str, Any] = json.loads(prepare(request, LoadSpec(), "m").body)
    return body


@pytest.mark.parametrize(
    "asked",
    [
        {"response_format": SCHEMA},
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"tools": [WEATHER]},
        {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False},
        {"tools": [WEATHER], "tool_choice": CALL},
    ],
)
@pytest.mark.parametrize("form", ["messages", "body"])
def test_what_is_asked_for_is_sent_as_it_stands(read: Any, form: str, asked: dict[str, Any]) -> None:
    record = {"messages": HELLO, **asked}
    (workload) = read(record if form == "messages" else {"body": record, "url": "/v1/chat/completions"})
    (prompt,) = workload.prompts
    assert prompt.asked == asked
    assert sent(prompt).items() >= {"messages": HELLO, **asked}.items()
    assert workload.notes == ()


def test_nothing_is_sent_where_nothing_is_asked(read: Any) -> None:
    (prompt,) = read({"messages": HELLO, "tools": [], "response_format": None, "tool_choice": "auto"}).prompts
    assert prompt.asked == {}
    assert not sent(prompt).keys() & {"tools", "response_format", "tool_choice"}


def test_a_plain_prompt_can_have_a_form_but_no_tools(read: Any) -> None:
    (prompt,) = read({"prompt": "Hello", "response_format": SCHEMA}).prompts
    assert sent(prompt)["response_format"] == SCHEMA
    with pytest.raises(WorkloadError, match="only chats can have tools"):
        read({"body": {"prompt": "Hello", "tools": [WEATHER]}})


def test_every_turn_of_a_conversation_asks(read: Any) -> None:
    talk = [*HELLO, {"role": "assistant", "content": "Hi"}, *HELLO]
    workload = read({"messages": talk, "tools": [WEATHER]}, multi_turn="recorded")
    assert [prompt.asked for prompt in workload.prompts] == [{"tools": [WEATHER]}] * 2


def test_a_call_cannot_be_followed_by_what_nobody_recorded(read: Any) -> None:
    talk = [*HELLO, {"role": "assistant", "content": "Hi"}, *HELLO]
    with pytest.raises(WorkloadError, match=r"'tools' in a conversation that goes on.*multi_turn: recorded"):
        read({"messages": talk, "tools": [WEATHER]}, multi_turn="own")
    assert len(read({"messages": HELLO, "tools": [WEATHER]}, multi_turn="own").prompts) == 1


def test_tables_hold_them_as_text(tmp_path: Path) -> None:
    path = tmp_path / "asked.csv"
    cell = json.dumps([WEATHER]).replace('"', '""')
    path.write_text(f'messages,tools,tool_choice\n"[{{""role"": ""user"", ""content"": ""Hi""}}]","{cell}",required\n')
    (prompt,) = read_workload(path, name="asked").prompts
    assert prompt.asked == {"tools": [WEATHER], "tool_choice": "required"}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"response_format": "json"}, "'response_format' is a string, and not JSON"),
        ({"response_format": [1]}, "'response_format' is a list, not an object"),
        ({"response_format": {"schema": {}}}, "'response_format' has no 'type'"),
        (
            {"response_format": {"type": "json_schema"}},
            "'response_format.json_schema' has no 'schema' that is an object",
        ),
        ({"structured_outputs": ["yes"]}, "'structured_outputs' is a list, not an object"),
        ({"tools": WEATHER}, "'tools' is an object, not a list"),
        ({"tools": [WEATHER, {"type": "function"}]}, r"'tools\[1\]' has no 'function' with a 'name'"),
        (
            {"tools": [WEATHER], "tool_choice": {"function": {"name": "wether"}}},
            r"names no function of 'tools' \(weather\)",
        ),
        ({"tools": [WEATHER], "tool_choice": 3}, "'tool_choice' is none of none, auto, required"),
    ],
)
def test_what_a_server_would_refuse_is_a_bad_line(read: Any, asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        read({"messages": HELLO, **asked})


def test_they_are_counted_and_make_a_prompt_another_one(read: Any) -> None:
    workload = read(
        {"messages": HELLO}, {"messages": HELLO, "tools": [WEATHER]}, {"messages": HELLO, "response_format": SCHEMA}
    )
    tally = Tally()
    for prompt in workload.prompts:
        tally.add(prompt)
    assert (tally.summary().forms, tally.summary().tools) == (1, 1)
    assert tally.notes() == ()


def chunk(delta: dict[str, Any], finish: str | None = None, ids: tuple[int, ...] = (5,)) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "token_ids": list(ids)}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def part(arguments: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more}}]}


END = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}\n\ndata: [DONE]\n\n'


def sample_of(prompt: Prompt, *reads: bytes) -> RequestSample:
    request = PlannedRequest(index=0, prompt=prompt, due_s=None, max_tokens=8, seed=1)
    timed = [(101.0 + place, piece) for place, piece in enumerate(reads)]
    return read_answer(Transfer(request, sent=100.0, reads=timed, ended=200.0), window_start=100.0)


@pytest.fixture
def calling(read: Any) -> Prompt:
    prompt: Prompt = read({"messages": HELLO, "tools": [WEATHER]}).prompts[0]
    return prompt


def test_the_first_part_of_a_call_is_the_first_token(calling: Prompt) -> None:
    sample = sample_of(
        calling,
        chunk({"role": "assistant", "content": ""}, ids=()),
        chunk(part("", name="weather")),
        chunk(part('{"city": ')),
        chunk(part('"Oslo"}'), "tool_calls"),
        END,
    )
    assert sample.error is None
    assert sample.token_times_s == (2.0, 3.0, 4.0)
    assert sample.form is not None
    assert (sample.form.calls, sample.form.as_asked, sample.form.blank) == (True, True, False)


def test_a_call_whose_role_comes_with_it_counts(calling: Prompt) -> None:
    sample = sample_of(calling, chunk({"role": "assistant", **part("{}", name="weather")}, "tool_calls"), END)
    assert sample.token_times_s == (1.0,)


def test_a_call_of_something_else_or_with_damaged_arguments_is_found(calling: Prompt) -> None:
    for call in (part("{}", name="whether"), part('{"city": ', name="weather")):
        form = sample_of(calling, chunk(call, "tool_calls"), END).form
        assert form is not None
        assert form.as_asked is False


def test_only_the_content_is_held_against_a_schema(read: Any) -> None:
    (prompt,) = read({"messages": HELLO, "response_format": SCHEMA}).prompts
    thought = chunk({"reasoning": "An object, then."})
    good = sample_of(prompt, thought, chunk({"content": '{"a": 1}'}, "stop"), END)
    broken = sample_of(prompt, thought, chunk({"content": '{"a": 1}}'}, "stop"), END)
    cut = sample_of(prompt, thought, chunk({"content": '{"a'}, "length"), END)
    assert [one.form and one.form.as_asked for one in (good, broken, cut)] == [True, False, None]
    unasked = sample_of(replace(prompt, asked={}), chunk({"content": "x"}, "stop"), END)
    assert unasked.form is not None
    assert unasked.form.as_asked is None
