"""What a server that something else started is asked, and what makes it unusable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.attached import AttachedPool, attach
from tests.load.stub_server import Exchange, Stub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

METRICS = 'vllm:generation_tokens_total{engine="0",model_name="m"} 5.0\n'


def models(*names: str) -> str:
    return json.dumps({"data": [{"id": name, "root": f"org/{name}", "max_model_len": 2048} for name in names]})


@pytest.fixture
def server() -> Iterator[Stub]:
    with Stub() as stub:
        answer(stub, "/v1/models", models("llama"))
        answer(stub, "/version", '{"version": "0.26.0"}')
        answer(stub, "/metrics", METRICS)
        yield stub


def answer(stub: Stub, path: str, text: str, status: int = 200) -> None:
    stub.routes[path] = lambda exchange: exchange.reply(status, text)


def test_a_server_says_what_it_is_and_is_given_the_key(server: Stub) -> None:
    found = attach("specdec", server.endpoint.base_url + "/v1/", {"Authorization": "Bearer s3cret"})
    assert (found.base_url, found.served_name, found.version) == (server.endpoint.base_url, "llama", "0.26.0")
    assert found.record.attached == server.endpoint.base_url
    assert found.facts.effective == {"model": "org/llama", "maximum model length": "2048"}
    assert {seen.headers.get("Authorization") for seen in server.seen} == {"Bearer s3cret"}


def test_a_server_without_a_version_is_measured_all_the_same(server: Stub) -> None:
    answer(server, "/version", "", 404)
    assert attach("baseline", server.endpoint.base_url, {}).version is None


def test_one_of_several_models_is_named_behind_the_address(server: Stub) -> None:
    answer(server, "/v1/models", models("llama", "lora"))
    assert attach("baseline", f"{server.endpoint.base_url}#lora", {}).served_name == "lora"
    with pytest.raises(
        LaunchError, match=r"(?s)serves several models: llama, lora.*Name one behind its address: http.*#llama"
    ):
        attach("baseline", server.endpoint.base_url, {})
    with pytest.raises(LaunchError, match="the specdec server does not serve 'other', but llama, lora"):
        attach("specdec", f"{server.endpoint.base_url}#other", {})


@pytest.mark.parametrize(
    ("path", "reply", "said"),
    [
        ("/v1/models", lambda exchange: exchange.reply(401, ""), "GET /v1/models: .*401.*SPECDEC_API_KEY"),
        ("/v1/models", Exchange.close, "GET /v1/models: did not answer"),
        ("/v1/models", lambda exchange: exchange.reply(200, "<html>"), "GET /v1/models names no model"),
        ("/v1/models", lambda exchange: exchange.reply(200, '{"data": []}'), "GET /v1/models names no model"),
        ("/metrics", lambda exchange: exchange.reply(404, ""), "GET /metrics: .*404"),
        (
            "/metrics",
            lambda exchange: exchange.reply(200, "go_threads 3\n"),
            "GET /metrics: .*A gateway in front of vLLM",
        ),
    ],
)
def test_what_is_no_vllm_is_told(path: str, reply: Callable[[Exchange], Any], said: str, server: Stub) -> None:
    server.routes[path] = reply
    with pytest.raises(LaunchError, match=f"(?s)--specdec-attach: the baseline server: {said}"):
        attach("baseline", server.endpoint.base_url, {})


def test_a_pool_of_them_asks_each_once_and_ends_none(server: Stub) -> None:
    pool = AttachedPool({"baseline": server.endpoint.base_url, "specdec": f"{server.endpoint.base_url}#llama"}, {})
    assert pool.running("baseline abc") is None
    found = pool.acquire("baseline abc", None, folder="x")
    assert pool.acquire("baseline abc") is found
    assert (found.arm, pool.acquire("specdec eagle3").arm) == ("baseline", "specdec")
    pool.close("baseline abc")
    pool.close_others(())
    pool.close_all()
    assert pool.running("baseline abc") is found
    assert len(server.seen_at("/v1/models")) == 2
