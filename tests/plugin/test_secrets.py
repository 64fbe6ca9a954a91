"""Secrets planted in every place that a user can put them, and in what a server prints; then everything written is searched."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.conftest import FAST

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = {
    "flag": "S3CR3T-in-a-flag",
    "variable": "S3CR3T-in-a-variable",
    "inherited": "S3CR3T-inherited",
    "command": "S3CR3T-in-the-command",
    "url": "S3CR3T-in-a-url",
    "header": "S3CR3T-in-a-header",
    "shape": "hf_" + "S3CR3Ta1B2c3D4e5F6",
}
LINES = [
    f"INFO 07-01 12:00:00 [x.py:1] using {SECRETS['variable']} and {SECRETS['inherited']} and {SECRETS['flag']}",
    f"Authorization: Bearer {SECRETS['header']}",
    f"GET https://me:{SECRETS['url']}@host/model with {SECRETS['shape']}",
    f"WARNING [m.py:1] Default vLLM sampling parameters have been overridden by x: `{{'a': '{SECRETS['flag']}'}}`.",
]


@pytest.fixture
def planted(write_config: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the config; ``fake`` are further knobs."""
    monkeypatch.setenv("REGISTRY_PASSWORD", SECRETS["inherited"])

    def write(**fake: Any) -> None:
        write_config(
            model=f"https://me:{SECRETS['url']}@host/model",
            command=["env", f"REGISTRY_TOKEN={SECRETS['command']}", sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
            env={"HF_TOKEN": SECRETS["variable"], "FAKE_VLLM": json.dumps(FAST | {"log_lines": LINES} | fake)},
            serve=["--hf-token", SECRETS["flag"]],
        )  # fmt: skip

    return write


def written(pytester: pytest.Pytester, result: pytest.RunResult) -> dict[str, str]:
    """Everything but the servers' own logs and what the test itself wrote."""
    found = {"stdout": result.stdout.str(), "stderr": result.stderr.str()}
    for path in pytester.path.rglob("*"):
        if path.is_file() and path.suffix not in (".log", ".pyc") and path.name not in ("fake.json", "test_gate.py"):
            found[path.name] = path.read_text(encoding="utf-8", errors="replace")
    return found


def leaks(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(where, place) for where, text in texts.items() for place, secret in SECRETS.items() if secret in text]


@pytest.mark.parametrize("slo", ["tpot_gain=0.1", "tpot_gain=0.99"])
def test_a_measured_gate_shows_none(
    pytester: pytest.Pytester, planted: Callable[..., None], write_gate: Callable[..., None], slo: str
) -> None:
    planted()
    write_gate(slo)
    texts = written(pytester, result := pytester.runpytest("--specdec-config=fake.json", "--junitxml=junit.xml"))
    assert sum(result.parseoutcomes().get(name, 0) for name in ("passed", "failed")) == 1
    assert "***" in texts["results.json"]
    assert leaks(texts) == []


@pytest.mark.parametrize(
    "message",
    [
        f"QueerError: {SECRETS['variable']} is wrong",
        f"OSError: https://me:{SECRETS['url']}@host/model is not a local folder and is not a valid model identifier",
    ],
)
def test_a_failed_server_shows_none(
    pytester: pytest.Pytester, planted: Callable[..., None], write_gate: Callable[..., None], message: str
) -> None:
    planted(exit_at_start={"code": 1, "message": message})
    write_gate()
    texts = written(pytester, result := pytester.runpytest("--specdec-config=fake.json", "--junitxml=junit.xml"))
    result.assert_outcomes(errors=1)
    assert "***" in texts["junit.xml"]
    assert leaks(texts) == []


def test_the_plan_shows_none(
    pytester: pytest.Pytester, planted: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    planted()
    write_gate()
    texts = written(pytester, pytester.runpytest("--specdec-config=fake.json", "--specdec-plan"))
    assert "--hf-token ***" in texts["stdout"]
    assert leaks(texts) == []


def test_the_command_line_in_the_results_shows_none(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate()
    texts = written(
        pytester, pytester.runpytest("--specdec-config=fake.json", "-o", f"junit_suite_name=token={SECRETS['flag']}")
    )
    assert leaks({"results.json": texts["results.json"]}) == []
