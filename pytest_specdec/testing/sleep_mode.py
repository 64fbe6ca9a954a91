"""The stand-in server's sleep mode: vLLM's three routes, as slow or as stuck as the knobs say; and a journal of who did what when."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from pytest_specdec.testing.engine import Engine


class SleepMode:
    """Handlers over one engine. Asleep, it answers no request; its prefix cache is gone, its weights and counters are kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """They exist only with ``--enable-sleep-mode``, and in dev mode."""
        router.add_post("/sleep", self._sleep)
        router.add_post("/wake_up", self._wake_up)
        router.add_get("/is_sleeping", self._is_sleeping)

    async def _sleep(self, request: web.Request) -> web.Response:
        knobs = self._engine.knobs
        if knobs.hang_at_sleep:
            await asyncio.Event().wait()
        await asyncio.sleep(knobs.sleep_s)
        self._engine.asleep = True
        self._engine.reset_prefix_cache()
        note(self._engine, "sleep")
        return web.json_response({"status": "sleeping", "level": int(request.query.get("level", "1"))})

    async def _wake_up(self, _: web.Request) -> web.Response:
        knobs = self._engine.knobs
        if knobs.hang_at_wake:
            await asyncio.Event().wait()
        note(self._engine, "wake")
        await asyncio.sleep(knobs.wake_s)
        self._engine.asleep = False
        return web.json_response({"status": "awake", "tags": None})

    async def _is_sleeping(self, _: web.Request) -> web.Response:
        return web.json_response({"is_sleeping": self._engine.asleep})


def note(engine: Engine, event: str) -> None:
    """Append to the journal: ``specdec 4711 wake``. One write, so that lines of two servers do not mix."""
    if engine.knobs.journal is not None:
        line = f"{engine.launch.arm} {os.getpid()} {event}\n".encode()
        descriptor = os.open(engine.knobs.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
