"""The benchmark's server sends what it says, and our client reads all of it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "load_generator"
CHUNKS, REQUESTS = 40, 6


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("compare")


@pytest.mark.parametrize("tpot_ms", [None, 1.0], ids=["as-fast-as-read", "on-schedule"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_every_chunk_sent_is_read(compare: Any, tokens: int, tpot_ms: float | None) -> None:
    with compare.serving(CHUNKS, tokens, tpot_ms) as url:
        command = [sys.executable, str(FOLDER / "ours.py"), "--url", url, "--concurrency=3", f"--requests={REQUESTS}"]
        done = subprocess.run([*command, "--max-tokens=118"], capture_output=True, text=True, check=True, timeout=60)
        truth = compare.ask(url, "/truth")
    seen = json.loads(done.stdout)
    assert (seen["errors"], seen["chunks"]) == ([], CHUNKS * REQUESTS)
    assert [answer["sent"] for answer in truth] == [CHUNKS] * REQUESTS
    if tpot_ms is not None:
        due_s = (CHUNKS - 1) * tokens * tpot_ms / 1000
        assert all(answer["last"] - answer["received"] >= due_s for answer in truth)


def test_what_a_request_waits_until_the_server_reads_it_is_part_of_its_answers_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("server")
    pace = module.Pace(chunks=2, tokens_per_chunk=1, tpot_s=0.0, ttft_s=0.0)
    with (
        contextlib.closing(module.Server(0, pace)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        while fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) != bytes(4):
            pass  # until the server's side of the kernel has it, which acknowledges it
        before_it_is_read = time.perf_counter()
        while not server.finished:
            server.turn()
        [answer] = server.finished
    assert answer.received < before_it_is_read < answer.first
