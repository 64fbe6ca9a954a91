"""Requests as they go over the wire, and what the client makes of answers that go wrong."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.answer import Transfer, read_answer
from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.client import Endpoint, connect, prepare
from pytest_specdec.load.workload import Prompt
from tests.load.stub_server import ANSWER, CHUNK, Exchange, Stub, planned

if TYPE_CHECKING:
    from pytest_specdec.core.samples import RequestSample


def body_of(prompt: Prompt, load: LoadSpec) -> tuple[str, dict[str, Any]]:
    request = PlannedRequest(index=0, prompt=prompt, due_s=None, max_tokens=33, seed=77)
    prepared = prepare(request, load, "served")
    return prepared.path, json.loads(prepared.body)


def ask(endpoint: Endpoint, *, times: int = 1) -> list[RequestSample]:
    """Sends so many requests one after the other over one client."""

    async def work() -> list[Transfer]:
        transfers = [Transfer(request) for request in planned(times)]
        async with connect(endpoint) as client:
            for transfer in transfers:
                await client.transfer(prepare(transfer.request, LoadSpec(), "m"), transfer)
        return transfers

    return [read_answer(transfer, window_start=transfer.sent) for transfer in asyncio.run(work())]


def error_after(stub: Stub, route: Any) -> str | None:
    stub.routes["/v1/completions"] = route
    return ask(stub.endpoint)[0].error


def test_everything_that_a_server_could_choose_is_stated() -> None:
    load = LoadSpec(temperature=0.8, top_p=0.9, top_k=40, ignore_eos=True)
    assert body_of(Prompt(index=0, prompt="Hi"), load) == (
        "/v1/completions",
        {
            "model": "served",
            "prompt": "Hi",
            "max_tokens": 33,
            "temperature": 0.8,
            "top_p": 0.9,
            "top_k": 40,
            "repetition_penalty": 1.0,
            "seed": 77,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        },
    )


def test_greedy_requests_state_the_same_keys() -> None:
    greedy = body_of(Prompt(index=0, prompt="Hi"), LoadSpec())[1]
    assert greedy.keys() == body_of(Prompt(index=0, prompt="Hi"), LoadSpec(temperature=1.0))[1].keys()
    assert (greedy["temperature"], greedy["top_p"], greedy["top_k"], greedy["seed"]) == (0.0, 1.0, -1, 77)


def test_messages_go_to_the_chat_endpoint() -> None:
    messages = ({"role": "user", "content": "Hi"},)
    path, body = body_of(Prompt(index=0, messages=messages), LoadSpec())
    assert path == "/v1/chat/completions"
    assert body["messages"] == list(messages)
    assert "prompt" not in body


def test_an_answer_is_read_to_its_end(stub: Stub) -> None:
    (sample,) = ask(stub.endpoint)
    assert sample.error is None
    assert sample.token_ids == (7, 7)
    assert 0 <= sample.sent_s <= sample.token_times_s[0] <= sample.token_times_s[1]


def test_requests_share_a_connection(stub: Stub) -> None:
    assert [sample.error for sample in ask(stub.endpoint, times=3)] == [None] * 3
    assert len({seen.client_port for seen in stub.seen}) == 1


def test_warmed_connections_are_used(stub: Stub) -> None:
    async def work() -> None:
        async with connect(stub.endpoint) as client:
            await client.warm_connections(2)
            await client.transfer(prepare(planned(1)[0], LoadSpec(), "m"), Transfer(planned(1)[0]))

    asyncio.run(work())
    warmed = {seen.client_port for seen in stub.seen_at("/health")}
    assert stub.seen_at("/v1/completions")[0].client_port in warmed


def test_proxies_of_the_environment_are_bypassed(stub: Stub, monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    assert ask(stub.endpoint)[0].error is None


def test_the_api_key_is_sent_and_not_shown(stub: Stub) -> None:
    endpoint = Endpoint(stub.endpoint.base_url, "m", headers={"Authorization": "Bearer s3cret"})
    ask(endpoint)
    assert stub.seen[-1].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(endpoint)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": {"message": "min_p is not\\n supported", "code": 400}}', "min_p is not supported"),
        ('{"object": "error", "message": "too long", "code": 400}', "too long"),
        ('{"detail": "Not Found"}', "Not Found"),
        ("upstream failed", "upstream failed"),
        ("", "(no message)"),
        ("x" * 600, "x" * 500 + " ..."),
    ],
    ids=["vllm", "older vllm", "fastapi", "text", "empty", "long"],
)
def test_a_refusal_quotes_the_server(stub: Stub, body: str, message: str) -> None:
    assert error_after(stub, lambda exchange: exchange.reply(400, body)) == f"HTTP 400: {message}"


def test_nothing_is_retried(stub: Stub) -> None:
    error_after(stub, lambda exchange: exchange.reply(503, "busy"))
    assert len(stub.seen) == 1


def test_a_closed_port_is_told(closed_port: int) -> None:
    assert ask(Endpoint(f"http://127.0.0.1:{closed_port}", "m"))[0].error == "connection refused"


def test_a_connection_closed_in_the_stream_is_a_cut(stub: Stub) -> None:
    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, CHUNK, end=False)
        exchange.close()

    assert error_after(stub, route) == "stream cut after 2 chunks: the server closed the connection"


def test_a_connection_reset_in_the_stream_is_a_cut(stub: Stub) -> None:
    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        exchange.reset()

    error = error_after(stub, route)
    assert error is not None
    assert error.startswith("stream cut after 1 chunk")


def test_a_connection_closed_before_the_answer_is_told(stub: Stub) -> None:
    assert error_after(stub, Exchange.close) == "the server closed the connection"


def test_an_answer_without_the_end_marker_is_a_cut(stub: Stub) -> None:
    error = error_after(stub, lambda exchange: exchange.stream(*ANSWER[:-1]))
    assert error == "stream cut after 2 chunks: it ended without [DONE]"


def test_an_answer_may_end_with_its_connection(stub: Stub) -> None:
    def until_close(exchange: Exchange) -> None:
        exchange.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(ANSWER))
        exchange.close()

    stub.routes["/v1/completions"] = until_close
    sample = ask(stub.endpoint)[0]
    assert (sample.error, len(sample.token_times_s)) == (None, 2)


def test_headers_cut_short_are_no_answer(stub: Stub) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.wfile.write(b"HTTP/1.1 200 OK\r\nContent-")
        exchange.close()

    assert error_after(stub, cut) == "the server closed the connection"


def test_what_is_no_http_is_told(stub: Stub) -> None:
    def other(exchange: Exchange) -> None:
        exchange.wfile.write(b"\x16\x03\x01 hello")
        exchange.close()

    assert str(error_after(stub, other)).startswith("the server's answer is no HTTP: ")


def test_an_answer_that_is_no_stream_has_no_token(stub: Stub) -> None:
    assert error_after(stub, lambda exchange: exchange.reply(200, '{"choices": [{"text": "x"}]}')) == "no token"


def question(stub: Stub, path: str) -> str:
    async def work() -> str:
        async with connect(stub.endpoint) as client:
            return await client.get_text(path)

    return asyncio.run(work())


def test_a_question_is_answered_with_text(stub: Stub) -> None:
    assert question(stub, "/metrics") == "running 0 tokens 0"


def test_a_question_that_fails_names_itself(stub: Stub) -> None:
    stub.routes["/metrics"] = lambda exchange: exchange.reply(404, '{"detail": "Not Found"}')
    with pytest.raises(InvalidMeasurement, match="GET /metrics failed: HTTP 404: Not Found") as failed:
        question(stub, "/metrics")
    assert failed.value.where == stub.endpoint.base_url


def test_a_question_to_nobody_names_itself(stub: Stub) -> None:
    stub.routes["/metrics"] = Exchange.close
    with pytest.raises(InvalidMeasurement, match="GET /metrics failed: the server closed the connection"):
        question(stub, "/metrics")
