"""Streams of the stand-in server against real ones of vLLM 0.32.0: same lines, same keys, same kinds of values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.testing.replies import speculation_of_request
from pytest_specdec.testing.simulation import Step

if TYPE_CHECKING:
    from collections.abc import Callable

STREAMS = Path(__file__).parents[1] / "data" / "stream"
FLAGS = ["--per-request-spec-decode-metrics", "detailed", "--enable-per-request-metrics"]


def shape(value: Any) -> Any:
    """Keys in their order and kinds of values; lists by the shape of their first item."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def shapes(lines: Any) -> list[Any]:
    return [shape(line) for line in lines]


def test_a_chat_stream_has_the_real_form(serve: Any, eagle: dict[str, Any], parse_stream: Callable[[str], Any]) -> None:
    real = parse_stream((STREAMS / "eagle3_chat.sse").read_text())
    client = serve(speculative_config=eagle, version="0.32.0", flags=FLAGS, answer_tokens=8)
    fake = client.stream(chat=True)
    role, first, *_, finish, usage = shapes(fake.lines)
    assert [role, first, finish, usage] == shapes([*real.lines[:2], real.lines[-2], real.lines[-1]])
    assert fake.done == real.done
    assert fake.lines[0]["choices"][0]["delta"] == real.lines[0]["choices"][0]["delta"]


def test_a_completion_stream_with_continuous_usage_has_the_real_form(
    serve: Any, eagle: dict[str, Any], parse_stream: Callable[[str], Any]
) -> None:
    real = parse_stream((STREAMS / "eagle3_detailed.sse").read_text())
    client = serve(speculative_config=eagle, version="0.32.0", flags=FLAGS, answer_tokens=60)
    fake = client.stream(max_tokens=24, stream_options={"continuous_usage_stats": True})
    assert shapes(fake.lines[:2]) == shapes(real.lines[:2])
    assert shapes(fake.lines[-2:]) == shapes(real.lines[-2:])
    assert fake.done


def test_a_plain_completion_stream_has_the_real_form(serve: Any, parse_stream: Callable[[str], Any]) -> None:
    real = parse_stream((STREAMS / "ngram.sse").read_text())
    config = {"method": "ngram", "num_speculative_tokens": 4}
    flags = ["--per-request-spec-decode-metrics", "summary"]
    client = serve(speculative_config=config, version="0.32.0", flags=flags, answer_tokens=60)
    fake = client.stream(max_tokens=24, return_token_ids=False)
    assert shapes(fake.lines[:1]) == shapes(real.lines[:1])
    assert shapes(fake.lines[-2:]) == shapes(real.lines[-2:])


@pytest.mark.parametrize(("version", "expected"), [("0.26.0", False), ("0.32.0", True)])
def test_timings_of_a_request_come_from_0_30_on(serve: Any, *, version: str, expected: bool) -> None:
    client = serve(version=version, flags=["--enable-per-request-metrics"])
    assert ("metrics" in client.stream().last) is expected


def test_the_baselines_end_token_comes_in_a_chunk_without_text(serve: Any) -> None:
    chunks = serve(answer_tokens=6).stream().token_chunks
    assert (chunks[-1]["text"], chunks[-1]["token_ids"], chunks[-1]["finish_reason"]) == ("", [2], "stop")


def test_with_speculation_the_end_token_shares_its_chunk(serve: Any, eagle: dict[str, Any]) -> None:
    chunks = serve(speculative_config=eagle, acceptance=1.0, answer_tokens=9).stream().token_chunks
    assert [len(chunk["token_ids"]) for chunk in chunks] == [1, 4, 4]
    assert chunks[-1]["text"]


def test_without_asking_for_usage_done_follows_the_tokens(baseline: Any) -> None:
    stream = baseline.stream(stream_options={"include_usage": False})
    assert stream.last["choices"][0]["finish_reason"] == "length"
    assert stream.done


@pytest.mark.parametrize("name", ["eagle3_detailed", "eagle3_chat"])
def test_figures_of_one_request_follow_from_its_steps_as_in_vllm(parse_stream: Callable[[str], Any], name: str) -> None:
    real = parse_stream((STREAMS / f"{name}.sse").read_text()).last["metrics"]["speculative_decoding"]
    pairs = zip(real["per_step_drafted"], real["per_step_accepted"], strict=True)
    steps = [Step(delivered=accepted + 1, drafted=drafted, accepted=accepted) for drafted, accepted in pairs]
    assert speculation_of_request(steps, k=3, detailed=True) == real
