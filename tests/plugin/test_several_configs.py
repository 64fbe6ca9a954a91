"""Several configs in one run: a folder of them, the ranking and the advice at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_a_folder_of_configs_is_ranked_against_one_baseline(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    (pytester.path / "configs").mkdir()
    # Both configs have the same environment, hence the same baseline; K makes the difference.
    fake = {"acceptance": [0.9, 0.9, 0.9, 0.9], "step_ratio": 1.0}
    workloads = {"tiny": {"path": "../tiny.jsonl"}}
    for name, tokens in (("one", 1), ("four", 4)):
        speculative = {"method": "ngram", "num_speculative_tokens": tokens}
        write_config(f"configs/{name}.json", fake=fake, speculative_config=speculative, workloads=workloads)
    write_gate(slo="min_acceptance_length=1.1")
    result = pytester.runpytest("--specdec-config=configs")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*ranking by speed per token: tiny, 8 requests at concurrency 4*",
            "    TPOT gain *AL *tok/step *tok/s *KV lost  start",
            "  four (ngram K=4)",
            "  one (ngram K=1)",
            "  winner: four: * less time per token than one",
            "advice for four, tiny: *",
            "advice for one, tiny: *",
        ]
    )


def test_a_folder_without_configs_stops_the_run_before_anything_starts(
    pytester: pytest.Pytester, write_gate: Callable[..., Path]
) -> None:
    (pytester.path / "configs").mkdir()
    write_gate()
    result = pytester.runpytest("--specdec-config=configs")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*configs: there is no config in this folder*"])


def test_a_miss_shows_the_advice_as_far_as_the_run_has_come(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    write_config(fake={"acceptance": [0.02, 0.0, 0.0]})
    write_gate(slo="min_acceptance_length=2.5")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  advice: stop: acceptance length 1.0* is below 1.50*"])
