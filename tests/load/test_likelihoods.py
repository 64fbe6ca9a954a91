"""How unlikely two tokens are after a common beginning, by what a server lists."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.asking import Place, _likelihood
from pytest_specdec.load.prompt_reader import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTED = {"token_id:1": -0.1, "token_id:2": -3.0, "token_id:3": -3.5}
SCHEMA = {"response_format": {"type": "json_object"}}


class Listing:
    """A server that lists the same log-probabilities whatever it is asked."""

    endpoint = SimpleNamespace(model="m")

    async def ask(self, _: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        assert timeout_s
        assert body["prompt"] == [7, 8, 9]
        return {"choices": [{"logprobs": {"top_logprobs": [LISTED]}}]}


def gaps(asked: dict[str, Any]) -> tuple[float, float] | None:
    prompt = Prompt(0, messages=({"role": "user", "content": "Hi"},), asked=asked)
    request = PlannedRequest(index=0, prompt=prompt, due_s=None, max_tokens=8, seed=1)
    place = Place(request, common=(9,), tokens=(2, 3))
    return asyncio.run(_likelihood(Listing(), (7, 8), place)).gaps_nats  # type: ignore[arg-type]  # all that is asked of a client


def test_both_are_held_against_the_likeliest_token() -> None:
    assert gaps({}) == pytest.approx((2.9, 3.4))
    assert gaps({"tools": [{"type": "function", "function": {"name": "x"}}]}) == pytest.approx((2.9, 3.4))


def test_where_a_grammar_may_have_forbidden_that_one_they_are_held_against_each_other() -> None:
    assert gaps(SCHEMA) == pytest.approx((0.0, 0.5))
