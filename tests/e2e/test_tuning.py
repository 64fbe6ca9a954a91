"""``--specdec-tune`` against real vLLM: several K of a trained draft, predictions in between, and a recommendation that was measured.

Which K it is depends on times, and those on the machine; all else is certain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import Comparison
    from tests.e2e.live_project import LiveProject

EAGLE3 = {"method": "eagle3", "model": "../drafts/smollm2-135m-eagle3", "num_speculative_tokens": 3}
TESTS = """
import pytest


@pytest.mark.spec_load(concurrency=4, workload="code", num_requests=8, max_tokens=16, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(tpot_gain=0.9)
def test_method(spec_comparison):
    raise AssertionError("no test runs")
"""


@dataclass(frozen=True)
class Tuned:
    """What a run left."""

    output: str
    advice: dict[str, Any]
    """For programs."""
    measured: dict[int, Comparison]
    """By K."""

    @property
    def rows(self) -> dict[int, dict[str, Any]]:
        """The table, by K."""
        return {row["k"]: row for row in self.advice["table"]}


@pytest.fixture(scope="module")
def tuned(make_project: Callable[[str], LiveProject]) -> Tuned:
    """One session: K of 3 and 1, and what they made it recommend."""
    project = make_project("tuning")
    project.add_config("eagle3", "../models/smollm2-135m-instruct", EAGLE3)
    project.add_tests(TESTS)
    assert project.start("--specdec-tune").wait(1500) == 0, project.output
    advice: dict[str, Any] = json.loads((project.folder / ".specdec/eagle3/k-advice-1.json").read_text("utf-8"))
    document = read_result(project.folder / ".specdec" / "tune.json")
    assert not document.gates
    measured = {one.num_speculative_tokens or 0: one for one in document.comparisons.values()}
    assert len(measured) == len(document.comparisons)
    return Tuned(project.output, advice, measured)


def test_the_ks_that_the_table_calls_measured_were_the_configs_own_and_the_smallest_among_them(tuned: Tuned) -> None:
    assert {k for k, row in tuned.rows.items() if row["measured"]} == set(tuned.measured)
    assert {1, 3} <= set(tuned.measured)
    # After four measurements nothing that was only predicted is told any more, as it could not be recommended.
    assert set(tuned.rows) == set(range(1, 9)) or set(tuned.rows) == set(tuned.measured)
    assert len(tuned.measured) <= 4
    baselines = {server.log for one in tuned.measured.values() for server in one.servers if server.arm == "baseline"}
    assert len(baselines) == 1, baselines


def test_acceptance_grows_with_k_and_what_lies_between_is_predicted_so(tuned: Tuned) -> None:
    lengths = [tuned.rows[k]["acceptance_length"] for k in (1, 2, 3) if k in tuned.rows]
    assert lengths == sorted(set(lengths))
    assert 1.3 < lengths[0] < lengths[-1] < 4


def test_the_figures_of_a_measured_k_are_those_of_its_servers(tuned: Tuned) -> None:
    for k, comparison in tuned.measured.items():
        counters = [run.counters for run in comparison.arm("specdec")]
        drafts, accepted = (sum(getattr(one, name) for one in counters) for name in ("drafts", "accepted_tokens"))
        assert tuned.rows[k]["acceptance_length"] == pytest.approx(1 + accepted / drafts)
        (drafted,) = {len(one.accepted_per_position or ()) for one in counters}
        assert drafted == k


def test_what_is_recommended_was_measured_and_is_ready_to_paste(tuned: Tuned) -> None:
    output, advice = " ".join(tuned.output.split()), tuned.advice  # lines are folded to the width of the screen
    k = advice["recommended"]
    if k is None:
        assert "no K pays" in output
        assert advice["speculative_config"] is None
        assert all(row["high"] < 0 for row in tuned.rows.values())
        return
    assert k in tuned.measured
    assert f"recommended: K = {k} " in output
    assert advice["speculative_config"] == {**EAGLE3, "num_speculative_tokens": k}
    assert f'"speculative_config": {json.dumps(advice["speculative_config"])}' in output
