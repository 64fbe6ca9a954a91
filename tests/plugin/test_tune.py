"""``--specdec-tune``: several Ks against one baseline, a table, a recommendation that was measured, and no test run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_the_recommended_k_has_been_measured(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"acceptance": 0.7, "step_ratio": 1.1}, measure={"rounds": 2, "max_rounds": 2})
    write_gate(body="raise AssertionError('no test runs')")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-tune")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*fake, workload tiny*",
            "*K*predicted AL*predicted TPOT gain*measured*",
            "*recommended: K = *",
            "*num_speculative_tokens*",
        ]
    )
    advice = json.loads((pytester.path / ".specdec" / "fake" / "k-advice-1.json").read_text())
    rows = {row["k"]: row for row in advice["table"]}
    assert rows[1]["measured"]
    assert rows[3]["measured"]
    assert rows[advice["recommended"]]["measured"]
    assert advice["speculative_config"]["num_speculative_tokens"] == advice["recommended"]


def test_all_ks_share_one_baseline(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(measure={"rounds": 2, "max_rounds": 2})
    write_gate()
    pytester.runpytest("--specdec-config=fake.json", "--specdec-tune")
    comparisons = json.loads((pytester.path / ".specdec" / "tune.json").read_text())["comparisons"]
    assert {"fake-k1/tiny", "fake-k3/tiny"} <= set(comparisons)
    logs = {server["log"] for one in comparisons.values() for server in one["servers"] if server["arm"] == "baseline"}
    assert len(logs) == 1


def test_a_method_without_a_k_is_refused_before_any_server(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(speculative_config={"method": "suffix"})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-tune")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*could not be tuned: suffix decoding drafts as many tokens as it finds*"])
    assert not list(pytester.path.glob(".specdec/**/*.log"))


def test_acceptance_that_is_made_up_is_a_ground_for_a_k_and_said_to_be_made_up(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    made_up = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.7, 0.5, 0.3]}
    write_config(
        fake={"acceptance": 0.7},
        speculative_config={"method": "ngram", "num_speculative_tokens": 3} | made_up,
        measure={"rounds": 2, "max_rounds": 2, "allow": ["synthetic"]},
    )
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-tune")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*acceptance is made up: what follows holds for a draft*", "*predicted AL*"])
    advice = json.loads((pytester.path / ".specdec" / "fake" / "k-advice-1.json").read_text())
    assert [row["k"] for row in advice["table"]] == [1, 2, 3]


def test_a_made_up_length_is_refused_before_a_server_starts(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    made_up = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0}
    write_config(
        speculative_config={"method": "ngram", "num_speculative_tokens": 3} | made_up, measure={"allow": ["synthetic"]}
    )
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-tune")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*could not be tuned: synthetic_acceptance_length is the same for every K*"])
    result.stdout.no_fnmatch_line("*starting the*")
