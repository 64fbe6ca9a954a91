"""A stand-in for ``vllm.entrypoints.openai.api_server``: a real process with vLLM's HTTP, without a model.

::

    python -m pytest_specdec.testing.fake_vllm --model some/model --port 8000 [any flag of vLLM]

Knobs come from the environment variable ``FAKE_VLLM``, see :mod:`pytest_specdec.testing.knobs`; a wrong one ends the process
with status 2.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, cast

from pytest_specdec.testing.engine import Engine
from pytest_specdec.testing.flags import parse_flags
from pytest_specdec.testing.knobs import ENVIRONMENT_VARIABLE, KnobError, Knobs, knob_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.testing.flags import Launch

_CHILD = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(300)
"""
_LOG_INTERVAL_S = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until it is terminated; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        data = knob_data(os.environ.get(ENVIRONMENT_VARIABLE))
        launch = parse_flags(arguments, version=str(data.get("version", Knobs.version)))
        engine = Engine(launch, data)
    except KnobError as error:
        print(f"fake_vllm: {error}", file=sys.stderr)  # noqa: T201 - the message of a command
        return 2
    try:
        listener = _bind(launch)
    except OSError as error:
        print(f"OSError: {error}", file=sys.stderr, flush=True)  # noqa: T201 - as vLLM does
        return 1
    with listener, contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(_serve(engine, listener))
    return 0


async def _serve(engine: Engine, listener: socket.socket) -> int:
    launch, knobs = engine.launch, engine.knobs
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    if knobs.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(signal.SIGTERM, stopped.set)
    starting = asyncio.ensure_future(_start(launch, knobs))
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return 0
    code = starting.result()
    return code if code is not None else await _answer_requests(engine, listener, stopped)


async def _answer_requests(engine: Engine, listener: socket.socket, stopped: asyncio.Event) -> int:
    # Imported here because refusals above should not wait for it.
    from aiohttp import web

    from pytest_specdec.testing.http_api import HttpApi
    from pytest_specdec.testing.sleep_mode import note

    runner = web.AppRunner(
        HttpApi(engine).application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.2
    )
    await runner.setup()
    await web.SockSite(runner, listener).start()
    _log("api_server.py:580", f"Starting vLLM server on http://{engine.launch.host}:{engine.launch.port}")
    print("INFO:     Application startup complete.", flush=True)  # noqa: T201 - a server's log
    note(engine, f"start CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}")
    foreign = asyncio.ensure_future(engine.foreign_traffic())
    await stopped.wait()
    note(engine, "stop")
    foreign.cancel()
    await runner.cleanup()
    return 0


async def _start(launch: Launch, knobs: Knobs) -> int | None:
    """Everything before the server listens; the exit status if it never will."""
    if knobs.spawn_child:
        child = subprocess.Popen(  # noqa: ASYNC220, S603 - starts at once
            [sys.executable, "-c", _CHILD, "fake-vllm-engine-core"], stdout=subprocess.PIPE
        )
        with cast("IO[bytes]", child.stdout) as said:
            said.readline()  # from now on it is deaf
        _log("core_client.py:1", f"Started engine core process {child.pid}")
    if not knobs.silent_start:
        _log_start(launch, knobs)
    for line in knobs.log_lines:
        print(line, flush=True)  # noqa: T201 - a server's log
    if knobs.exit_at_start is not None:
        print(knobs.exit_at_start.message, file=sys.stderr, flush=True)  # noqa: T201 - a server's log
        return knobs.exit_at_start.code
    if knobs.hang_at_start:
        await asyncio.Event().wait()
    ready_s = time.monotonic() + knobs.startup_s
    while (left_s := ready_s - time.monotonic()) > 0:
        await asyncio.sleep(min(left_s, _LOG_INTERVAL_S))
        if not knobs.silent_start:
            _log(
                "weight_utils.py:1",
                f"Loading weights, {max(0.0, ready_s - time.monotonic()):.1f} s left",
                part="EngineCore",
            )
    return None


def _log_start(launch: Launch, knobs: Knobs) -> None:
    _log("utils.py:299", f"vLLM API server version {knobs.version}")
    _log("utils.py:233", f"non-default args: {launch.given}")
    config = f"model='{launch.model}', speculative_config={_described(launch, knobs)}, seed={launch.seed}"
    _log("core.py:109", f"Initializing a V1 LLM engine (v{knobs.version}) with config: {config}", part="EngineCore")
    _log("kv_cache_utils.py:1319", f"GPU KV cache size: {knobs.kv_cache_tokens:,} tokens", part="EngineCore")
    concurrency = knobs.kv_cache_tokens / launch.max_model_len
    text = f"Maximum concurrency for {launch.max_model_len:,} tokens per request: {concurrency:.2f}x"
    _log("kv_cache_utils.py:1324", text, part="EngineCore")


def _described(launch: Launch, knobs: Knobs) -> str:
    config = launch.speculative_config
    if config is None:
        return "None"
    method, k = knobs.wrong_method or config.get("method"), knobs.num_speculative_tokens or launch.configured_k
    return f"SpeculativeConfig(method={method!r}, model={config.get('model')!r}, num_spec_tokens={k})"


def _bind(launch: Launch) -> socket.socket:
    """Take the port before anything else, as vLLM does."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((launch.host, launch.port))
    except OSError:
        listener.close()
        raise
    return listener


def _log(place: str, message: str, *, part: str = "APIServer") -> None:
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"({part} pid={os.getpid()}) INFO {stamp} [{place}] {message}", flush=True)  # noqa: T201 - a server's log


if __name__ == "__main__":
    sys.exit(main())
