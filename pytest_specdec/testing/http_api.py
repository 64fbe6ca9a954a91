"""The stand-in server's HTTP: vLLM's routes, its streams, and the faults that show in them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from typing import TYPE_CHECKING, Any

from aiohttp import web

from pytest_specdec.testing.flags import version_tuple
from pytest_specdec.testing.generation import BadRequestError, Generation, read_generation
from pytest_specdec.testing.knobs import KnobError
from pytest_specdec.testing.replies import DONE, Emission, Logprobs, Reply, error_body, speculation_of_request, stamp
from pytest_specdec.testing.simulation import token_text, tokens_of_text
from pytest_specdec.testing.sleep_mode import SleepMode, note
from pytest_specdec.testing.token_choice import share

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pytest_specdec.testing.engine import Answer, Engine

_TIMINGS_SINCE = (0, 30)


class HttpApi:
    """Handlers over one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def application(self) -> web.Application:
        """All routes; those of sleep and of the prefix cache exist only in dev mode, as in vLLM."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/detokenize", self._detokenize)
        app.router.add_post("/fake/knobs", self._knobs)
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            app.router.add_post("/reset_prefix_cache", self._reset_prefix_cache)
            if self._engine.launch.sleep_mode:
                SleepMode(self._engine).add_routes(app.router)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self._engine.knobs.version})

    async def _models(self, _: web.Request) -> web.Response:
        launch = self._engine.launch
        card = {
            "id": launch.served_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": launch.model,
            "parent": None,
            "max_model_len": launch.max_model_len,
            "permission": [],
        }
        return web.json_response({"object": "list", "data": [card]})

    async def _metrics(self, _: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._engine.metrics_text().encode(), headers=headers)

    async def _tokenize(self, request: web.Request) -> web.Response:
        tokens = tokens_of_text(str((await request.json()).get("prompt", "")))
        body = {"count": len(tokens), "max_model_len": self._engine.launch.max_model_len, "tokens": list(tokens)}
        return web.json_response(body)

    async def _detokenize(self, request: web.Request) -> web.Response:
        tokens = (await request.json()).get("tokens", [])
        return web.json_response({"prompt": "".join(token_text(int(token)) for token in tokens)})

    async def _knobs(self, request: web.Request) -> web.Response:
        try:
            self._engine.change_knobs(await request.json())
        except KnobError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({})

    async def _reset_prefix_cache(self, _: web.Request) -> web.Response:
        return web.json_response({"success": self._engine.reset_prefix_cache()})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        engine = self._engine
        if engine.asleep:
            return _error("The engine is asleep.", kind="InternalServerError", status=500)
        try:
            body = await request.json()
            asked = read_generation(body, chat=chat, launch=engine.launch, speculating=engine.speculating)
        except BadRequestError as error:
            return _error(str(error), kind=error.kind, status=error.status)
        except ValueError as error:
            return _error(f"the body is not JSON: {error}", kind="BadRequestError", status=400)
        note(engine, "request")
        ordinal = engine.next_ordinal()
        failure = engine.knobs.http_error
        if failure and ordinal % failure.every == 0:
            return _error("EngineCore encountered an issue.", kind="InternalServerError", status=failure.status)
        hangs_after = engine.knobs.hang_after_requests
        if hangs_after is not None and ordinal > hangs_after:
            return await _hang(request)
        answer = engine.begin(asked, ordinal)
        return await (self._stream(request, answer) if asked.stream else self._whole(answer))

    async def _whole(self, answer: Answer) -> web.Response:
        dies = self._dies(answer)
        async with contextlib.aclosing(self._engine.run(answer)) as emissions:
            async for _ in emissions:
                if dies:
                    _die()
        reply = self._reply(answer)
        return web.json_response(reply.whole(answer.tokens, answer.finish_reason, self._extra(answer)))

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        knobs, asked, reply = self._engine.knobs, answer.asked, self._reply(answer)
        cut = knobs.cut_stream is not None and answer.ordinal % knobs.cut_stream.every == 0
        stops_at = max(1, len(answer.tokens) // 2) if cut or self._dies(answer) else None
        response = _event_stream()
        await response.prepare(request)
        held: list[bytes] = [reply.role_chunk()] if asked.chat else []
        sent = 0
        async with contextlib.aclosing(_bundled(self._engine.run(answer), knobs.merged_chunks)) as emissions:
            async for emission in emissions:
                held.append((stamp(emission) if knobs.stamped else b"") + reply.chunk(emission, sent_before=sent))
                sent += len(emission.tokens)
                if not knobs.buffered:
                    await response.write(b"".join(held))
                    held.clear()
                if stops_at is not None and sent >= stops_at:
                    if not cut:
                        _die()
                    if request.transport is not None:
                        request.transport.close()
                    return response
        if asked.include_usage:
            held.append(reply.usage_chunk(sent, self._extra(answer)))
        await response.write(b"".join([*held, DONE]))
        await response.write_eof()
        return response

    def _dies(self, answer: Answer) -> bool:
        after = self._engine.knobs.die_after_requests
        return after is not None and answer.ordinal > after

    def _reply(self, answer: Answer) -> Reply:
        asked = answer.asked
        return Reply(
            id=("chatcmpl-" if asked.chat else "cmpl-") + uuid.uuid4().hex[:16],
            created_unix_s=int(time.time()),
            model=self._engine.launch.served_name,
            chat=asked.chat,
            prompt_tokens=asked.prompt_tokens,
            with_token_ids=asked.return_token_ids,
            usage_in_every_chunk=asked.usage_in_every_chunk,
            logprobs=_logprobs(answer, asked),
            json=asked.json,
            tool=asked.tool,
            broken=share(f"{answer.oracle.identity}|form") < self._engine.knobs.broken_form,
        )

    def _extra(self, answer: Answer) -> dict[str, Any]:
        """What follows usage: fingerprint, and per-request metrics where the server was started with them."""
        engine, launch = self._engine, self._engine.launch
        extra: dict[str, Any] = {"system_fingerprint": f"vllm-{engine.knobs.version}-fa4e0000"}
        timed = launch.per_request_timing and version_tuple(engine.knobs.version) >= _TIMINGS_SINCE
        metrics: dict[str, Any] = _timings(answer) if timed else {}
        if launch.per_request_speculation != "none":
            detailed = launch.per_request_speculation == "detailed"
            stats = speculation_of_request(answer.steps, k=engine.k, detailed=detailed)
            metrics |= {"speculative_decoding": stats} if stats else {}
        return extra | ({"metrics": metrics} if metrics else {})


def _timings(answer: Answer) -> dict[str, Any]:
    decode_s, tokens = answer.last_token_s - answer.first_token_s, len(answer.tokens)
    return {
        "time_to_first_token_ms": (answer.first_token_s - answer.arrived_s) * 1000,
        "generation_time_ms": decode_s * 1000,
        "queue_time_ms": (answer.admitted_s - answer.arrived_s) * 1000,
        "mean_itl_ms": decode_s * 1000 / (tokens - 1) if tokens > 1 else None,
        "tokens_per_second": tokens / (answer.last_token_s - answer.arrived_s),
    }


def _logprobs(answer: Answer, asked: Generation) -> Logprobs | None:
    if asked.top_logprobs is None and asked.top_prompt_logprobs is None:
        return None
    return Logprobs(
        oracle=answer.oracle,
        offset=asked.answered,
        prompt_tokens=asked.prompt_tokens,
        top=asked.top_logprobs,
        prompt_top=asked.top_prompt_logprobs,
        as_token_ids=asked.logprobs_as_token_ids,
    )


async def _bundled(emissions: AsyncGenerator[Emission, None], steps: int) -> AsyncGenerator[Emission, None]:
    """Put the tokens of several decode steps into one emission; the first token stays alone."""
    tokens: list[int] = []
    gathered, first = 0, True
    async with contextlib.aclosing(emissions) as source:
        async for emission in source:
            tokens += emission.tokens
            gathered += 1
            if first or gathered >= steps or emission.finish_reason:
                yield Emission(tuple(tokens), emission.finish_reason, emission.due_s)
                tokens, gathered, first = [], 0, False


async def _hang(request: web.Request) -> web.StreamResponse:
    response = _event_stream()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


def _event_stream() -> web.StreamResponse:
    return web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})


def _error(message: str, *, kind: str, status: int) -> web.Response:
    return web.json_response(error_body(message, kind=kind, status=status), status=status)


def _die() -> None:
    print("ERROR [core.py:1] EngineCore encountered a fatal error.", flush=True)  # noqa: T201 - a server's log
    print("RuntimeError: CUDA error: an illegal memory access was encountered", flush=True)  # noqa: T201 - as above
    os._exit(1)
