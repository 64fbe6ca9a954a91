"""What a config's entry says about a workload reaches the servers and the result."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_a_log_is_sampled_as_its_entry_says(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    kinds = ["code"] * 20 + ["chat"] * 40
    rows = [f"Prompt number {number},{kind}" for number, kind in enumerate(kinds)]
    (pytester.path / "logs.csv").write_text("\n".join(["request,kind", *rows]))
    entry = {
        "path": "logs.csv",
        "columns": {"prompt": "request", "category": "kind"},
        "sample": 8,
        "shares": {"code": 0.75, "chat": 0.25},
        "max_tokens": 12,
    }
    write_config(workloads={"tiny": entry})
    write_gate("tpot_gain=0.1")
    pytester.runpytest("--specdec-config=fake.json").assert_outcomes(passed=1)
    results = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    (comparison,) = results["comparisons"].values()
    assert comparison["workload"]["prompts"] == 8
    assert comparison["workload"]["weights"] == {"code": 0.75, "chat": 0.25}
    assert "8 of 60 prompts drawn: code 6 of 20, chat 2 of 40" in comparison["notes"]
    samples = comparison["runs"][0]["samples"]
    assert Counter(samples["category"]) == {"code": 6, "chat": 2}
    assert set(samples["completion_tokens"]) == {12}


def test_a_log_that_cannot_be_used_is_an_error_with_its_line(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    (pytester.path / "logs.csv").write_text("prompt,kind\nfine,a\nbroken\n")
    write_config(workloads={"tiny": {"path": "logs.csv"}})
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*logs.csv:3: 1 cell, and the header has 2*"])
