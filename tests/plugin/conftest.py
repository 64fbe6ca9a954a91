"""A project with a config whose servers are fakes: real processes that speak vLLM's HTTP and are up at once.

What these tests show is how the plugin behaves, never that vLLM gets faster.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from typing import TYPE_CHECKING, Any

import aiohttp  # noqa: F401 - see below
import numpy as np  # noqa: F401 - see below
import pydantic  # noqa: F401 - see below
import pytest
import scipy.stats  # noqa: F401 - see below

from pytest_specdec.serving import command as _command  # noqa: F401 - patched by a test, see below
from pytest_specdec.serving import preflight as _preflight  # noqa: F401 - as above
from tests import exact_times

with contextlib.suppress(ImportError):  # of the extra for reports
    import jinja2  # noqa: F401
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401

# pytester runs the inner pytest in this process and forgets the modules it imported, but compiled modules cannot be imported a second
# time. So they are imported here first, and so are our own modules that tests change: a module imported inside is another one the
# next time. What the plugin itself imports, and when, is test_start_cost.py's matter.

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Every timed window collects garbage first, and what was imported above makes that slow; none of it is garbage.
gc.freeze()

PROMPTS = 24
FAST: dict[str, Any] = {
    "tpot_ms": 12,
    "ttft_ms": 4,
    "answer_tokens": [24, 24],
    "jitter": 0.02,
    "acceptance": [0.8, 0.7, 0.6],
    **exact_times.STAMPED,
}


@pytest.fixture
def write_config(pytester: pytest.Pytester) -> Callable[..., Path]:
    """Write an envelope around a fake server; ``fake`` are its knobs, the rest goes into the envelope."""
    (pytester.path / "tiny.jsonl").write_text(
        "".join(json.dumps({"prompt": f"Prompt number {n}: tell me about it."}) + "\n" for n in range(PROMPTS))
    )

    def write(name: str = "fake.json", *, fake: dict[str, Any] | None = None, **envelope: Any) -> Path:
        content = {
            "model": "fake-model",
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
            "command": [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
            "env": {"FAKE_VLLM": json.dumps(FAST | (fake or {}))},
            "workloads": {"tiny": {"path": "tiny.jsonl"}},
            "measure": {"rounds": 3, "max_rounds": 3},
        } | envelope
        path = pytester.path / name
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
        return path

    return write


GATE = """
    import pytest

    @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)
    @pytest.mark.spec_slo({slo})
    def test_gate(spec_comparison):
        {body}
"""


@pytest.fixture
def write_gate(pytester: pytest.Pytester) -> Callable[..., Path]:
    """Write a test file with one gate."""

    def write(slo: str = "tpot_gain=0.1", body: str = "pass", name: str = "test_gate") -> Path:
        return pytester.makepyfile(**{name: GATE.format(slo=slo, body=body)})

    return write


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The inner pytest must not inherit what the outer one was told, nor wait for another run's device lock."""
    locks = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr("tempfile.tempdir", str(locks))
    monkeypatch.setenv("TMPDIR", str(locks))
    # These tests show what the plugin does with a measurement, on machines that have other things to do meanwhile.
    exact_times.install(monkeypatch.setattr)
    # Lines are looked for as they are where there is room; test_terminal.py is about where there is none.
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("PYTEST_ADDOPTS", "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
