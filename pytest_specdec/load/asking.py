"""Asking servers for what they say, not for how fast: whole passes of answers, and how likely single tokens are.

Synchronous entry points, like those of :mod:`pytest_specdec.load.measure`; ``alive`` is called while they wait.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.asked_form import asked_form
from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.load.answer import TOKEN_ID, read_answer
from pytest_specdec.load.asked_reader import FORM_KEYS
from pytest_specdec.load.client import connect, prepare
from pytest_specdec.load.idle import reset_prefix_cache
from pytest_specdec.load.interrupt import run_cancellable
from pytest_specdec.load.measure import DEATH_NOTICE_S, STALL_TIMEOUT_S, while_alive
from pytest_specdec.load.window import run_window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.client import Client, Endpoint

LISTED = 20
"""Most likely tokens asked for: what vLLM allows by default (``--max-logprobs``)."""
LONG_ANSWER_S = 300.0
"""For one question: a long prompt on a slow machine."""


@dataclass(frozen=True)
class Place:
    """A place in an answer, and the two tokens that stand there."""

    request: PlannedRequest
    common: tuple[int, ...]
    tokens: tuple[int, int]


@dataclass(frozen=True)
class Likelihood:
    """How far each of the two tokens lies below the most likely one; below the likelier of the two, where a form was asked for."""

    gaps_nats: tuple[float, float] | None
    """None where the server did not tell."""
    least: bool = False
    """At least so far: one of them is beyond what the server lists."""
    unscored: str = ""


def ask_all(
    endpoint: Endpoint,
    plan: Sequence[PlannedRequest],
    load: LoadSpec,
    *,
    alive: Callable[[], None],
    on_progress: Callable[[int, int], None],
    by_logprobs: bool = False,
) -> tuple[RequestSample, ...]:
    """Every answer of a plan, in its order; failed requests are samples with an error.

    Args:
        endpoint: The server.
        plan: What to send.
        load: Concurrency and sampling.
        alive: Raises ServerDied when the server's process is gone.
        on_progress: Called with the number of requests that have ended and their total.
        by_logprobs: Ask for the tokens as names of logprobs, where the server sends no token ids.

    Raises:
        ServerDied: From ``alive``.
    """
    # True is 1 to the completions API, and all that a chat wants.
    more = {"logprobs": True, "return_tokens_as_token_ids": True} if by_logprobs else None

    async def work() -> tuple[RequestSample, ...]:
        async with connect(endpoint) as client:
            await reset_prefix_cache(client)
            window = await run_window(
                client, plan, load, on_progress=on_progress, stall_timeout_s=STALL_TIMEOUT_S, more=more
            )
            if any(transfer.disconnected for transfer in window.transfers):
                await asyncio.sleep(DEATH_NOTICE_S)
        return tuple(read_answer(transfer, window_start=window.started) for transfer in window.transfers)

    return run_cancellable(while_alive(work(), alive))


def likelihoods(
    endpoint: Endpoint,
    places: Sequence[Place],
    load: LoadSpec,
    *,
    alive: Callable[[], None],
    on_progress: Callable[[int, int], None],
) -> tuple[Likelihood, ...]:
    """What the server thinks of the tokens at each place, one question at a time so that no batch changes the answer.

    Args:
        endpoint: The server.
        places: In any order.
        load: Sampling, as the answers had it.
        alive: Raises ServerDied when the server's process is gone.
        on_progress: Called with the number of places that are done and their total.

    Raises:
        ServerDied: From ``alive``.
    """

    async def work() -> tuple[Likelihood, ...]:
        found: list[Likelihood] = []
        prompts: dict[int, tuple[int, ...]] = {}
        async with connect(endpoint) as client:
            for number, place in enumerate(places):
                on_progress(number, len(places))
                try:
                    if place.request.prompt.index not in prompts:
                        prompts[place.request.prompt.index] = await prompt_tokens(client, place.request, load)
                    found.append(await _likelihood(client, prompts[place.request.prompt.index], place))
                except InvalidMeasurement as error:
                    found.append(Likelihood(None, unscored=error.what))
        return tuple(found)

    return run_cancellable(while_alive(work(), alive))


async def prompt_tokens(client: Client, request: PlannedRequest, load: LoadSpec) -> tuple[int, ...]:
    """The prompt's token ids, as the server's own template and tokenizer make them.

    Raises:
        InvalidMeasurement: It does not tell them.
    """
    prepared = prepare(request, load, client.endpoint.model)
    body = json.loads(prepared.body) | {"max_tokens": 1, "stream": False}
    # A form does not change the prompt, and one token has none.
    body = {key: value for key, value in body.items() if key not in ("stream_options", *FORM_KEYS)}
    answer = await client.ask(prepared.path, body, timeout_s=LONG_ANSWER_S)
    ids = answer.get("prompt_token_ids") or _first(answer.get("choices")).get("prompt_token_ids")
    if not ids:
        raise InvalidMeasurement("the server does not tell the prompt's token ids (return_token_ids)")
    return tuple(ids)


async def _likelihood(client: Client, prompt: tuple[int, ...], place: Place) -> Likelihood:
    before = [*prompt, *place.common]
    listed = await _listed(client, before)
    known = [listed.get(token) for token in place.tokens]
    least = False
    for which, token in enumerate(place.tokens):
        if known[which] is None:
            try:
                known[which] = await _of_prompt(client, [*before, token])
            except InvalidMeasurement:
                known[which], least = min(listed.values()), True
    # Where a grammar decides what is allowed, the likeliest token may not have been; the likelier of the two was.
    enforced = asked_form(place.request.prompt.asked).enforced
    best = max(one for one in (*known, *(listed.values() if not enforced else ())) if one is not None)
    first, second = (best - one if one is not None else math.nan for one in known)
    return Likelihood((first, second), least)


async def _listed(client: Client, before: list[int]) -> dict[int, float]:
    """The most likely next tokens and their log-probabilities."""
    body = _body(client, before) | {"logprobs": LISTED, "return_tokens_as_token_ids": True}
    choice = _first((await client.ask("/v1/completions", body, timeout_s=LONG_ANSWER_S)).get("choices"))
    try:
        rows = choice["logprobs"]["top_logprobs"][0]
        return {int(name.removeprefix(TOKEN_ID)): float(value) for name, value in rows.items()}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InvalidMeasurement(f"the server does not list log-probabilities by token id ({error!r})") from None


async def _of_prompt(client: Client, tokens: list[int]) -> float:
    """The log-probability of the last of these tokens, after the others."""
    body = _body(client, tokens) | {"prompt_logprobs": 1}
    answer = await client.ask("/v1/completions", body, timeout_s=LONG_ANSWER_S)
    rows = _first(answer.get("choices")).get("prompt_logprobs")
    try:
        return float(rows[-1][str(tokens[-1])]["logprob"])  # type: ignore[index] # anything else raises what is caught
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidMeasurement(f"the server does not tell the prompt's log-probabilities ({error!r})") from None


def texts_of(
    endpoint: Endpoint, tokens: Sequence[Sequence[int]], *, alive: Callable[[], None]
) -> tuple[str | None, ...]:
    """Token ids as text; None where the server does not tell."""

    async def work() -> tuple[str | None, ...]:
        async with connect(endpoint) as client:
            return tuple([await _text(client, one) for one in tokens])

    return run_cancellable(while_alive(work(), alive))


async def _text(client: Client, tokens: Sequence[int]) -> str | None:
    body = {"model": client.endpoint.model, "tokens": list(tokens)}
    try:
        return str((await client.ask("/detokenize", body, timeout_s=LONG_ANSWER_S)).get("prompt", ""))
    except InvalidMeasurement:
        return None


def _body(client: Client, prompt: list[int]) -> dict[str, Any]:
    return {"model": client.endpoint.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}


def _first(choices: Any) -> dict[str, Any]:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
