"""A fast subset of the simulations: gates in a noisy world whose truth is known are seldom judged wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulations" / "false_alarms.py"
GATES = 300


@pytest.fixture(scope="module")
def tallies() -> dict[float, dict[str, Any]]:
    """What became of the gates, by the margin by which the truth beats the threshold."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--gates", str(GATES), "--world", "small", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["margin"]: line for line in lines}


def test_at_most_one_gate_in_twenty_is_judged_wrongly_however_close_the_call(
    tallies: dict[float, dict[str, Any]],
) -> None:
    wrong = {margin: tally["wrong"] / GATES for margin, tally in tallies.items()}
    assert max(wrong.values()) <= 0.05, wrong


def test_a_clear_case_is_decided_and_rightly(tallies: dict[float, dict[str, Any]]) -> None:
    assert tallies[0.05]["ok"] > 0.8 * GATES
    assert tallies[-0.05]["failed"] > 0.8 * GATES


def test_further_rounds_decide_more(tallies: dict[float, dict[str, Any]]) -> None:
    after = list(tallies[0.03]["decided_after"].values())
    assert after == sorted(after)
    assert after[0] < after[-1]
