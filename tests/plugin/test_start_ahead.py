"""Several configs on one GPU: their servers start together where all fit, and each is measured alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.reporting.result_file import read_result
from tests.plugin.conftest import FAST
from tests.plugin.test_placements import GPUS, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIB = 1024**3


@pytest.fixture
def journal(pytester: pytest.Pytester) -> Path:
    return pytester.path / "journal.txt"


@pytest.fixture
def run_three(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None], journal: Path
) -> Callable[..., pytest.RunResult]:
    """Run one gate with the configs a, b and c on a GPU of so many GiB; a server takes 1 GiB of weights, and 10 in all."""

    def run(memory_gib: float, *arguments: str, slo: str = "tpot_gain=0.1") -> pytest.RunResult:
        pytester.makeconftest(GPUS.format(arguments=f"1, memory_gib={memory_gib}"))
        (pytester.path / "target").mkdir()
        with (pytester.path / "target" / "model.safetensors").open("wb") as file:
            file.truncate(GIB)
        for name in "abc":
            write_config(
                f"{name}.json",
                model="./target",
                serve={"kv_cache_memory_bytes": "7G"},
                env={"FAKE_VLLM": json.dumps(FAST | {"journal": str(journal)})},
                speculative_config={
                    "method": "ngram",
                    "num_speculative_tokens": 3,
                    "prompt_lookup_max": 2 + "abc".index(name),
                },
            )
        write_gate(slo)
        return pytester.runpytest(*(f"--specdec-config={name}.json" for name in "abc"), *arguments)

    return run


def starts(journal: Path) -> tuple[int, int]:
    """Servers that were started in all, and before the first one ended, which is when the first config's tests are over."""
    seen = [event.split()[0] for _, _, event in events(journal)]
    return seen.count("start"), seen[: seen.index("stop")].count("start")


def test_all_start_together_where_there_is_room(
    run_three: Callable[..., pytest.RunResult], pytester: pytest.Pytester, journal: Path
) -> None:
    run_three(50).assert_outcomes(passed=3)
    assert starts(journal) == (4, 4)
    comparisons = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert [server.started_beside for comparison in comparisons for server in comparison.servers] == [True] * 6


def test_what_does_not_fit_starts_in_its_turn(run_three: Callable[..., pytest.RunResult], journal: Path) -> None:
    run_three(35).assert_outcomes(passed=3)  # three of 10 GiB in 31.5
    assert starts(journal) == (4, 3)


def test_configs_without_a_test_are_not_started(run_three: Callable[..., pytest.RunResult], journal: Path) -> None:
    run_three(50, "-k", "not b").assert_outcomes(passed=2, deselected=1)
    assert starts(journal) == (3, 3)


def test_judged_starts_are_starts_alone(run_three: Callable[..., pytest.RunResult], journal: Path) -> None:
    run_three(50, slo="max_startup_s=60").assert_outcomes(passed=3)
    assert starts(journal) == (4, 2)


def test_what_tuning_measures_first_starts_together_for_all_configs(
    run_three: Callable[..., pytest.RunResult], journal: Path
) -> None:
    run_three(100, "--specdec-tune")
    started, before_the_first_stop = starts(journal)
    assert before_the_first_stop == 7  # one baseline, and two Ks of each
    assert started >= 7
