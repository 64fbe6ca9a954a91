"""The benchmark's server sends what it says, and our client reads all of it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
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
