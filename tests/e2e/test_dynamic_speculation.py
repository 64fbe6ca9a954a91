"""``--specdec-dynamic`` against real vLLM: a schedule from what was measured, valid for vLLM, written, launched, obeyed and gated.

Which schedule it is depends on times, and those on the machine; that the one of this run follows from the gains of this run does not.
"""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core import stream_validity
from pytest_specdec.core.judge import estimate
from pytest_specdec.core.schedule import KPoint, Schedule, derive_schedule
from pytest_specdec.core.schedule_worth import better_fixed
from tests.e2e.live_project import TOLERANCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison
    from tests.e2e.live_project import Finished, LiveProject

K = "num_speculative_tokens"
SCHEDULE = "num_speculative_tokens_per_batch_size"
EAGLE3 = {"method": "eagle3", "model": "../drafts/smollm2-135m-eagle3"}
CONFIGS = {"short": 1, "long": 8}
"""Of one family, by their K: so far apart that hardly a machine finds one of them best at both loads."""
LOADS = (1, 12)

TESTS = f"""
import pytest


@pytest.mark.spec_load(concurrency={list(LOADS)}, workload="code", num_requests=4, max_tokens=10, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(tpot_gain=0.0)
def test_gain(spec_comparison):
    pass
"""

VLLM_SAYS = """
import json, sys

from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

config, highest = json.loads(sys.argv[1]), int(sys.argv[2])
print(build_dynamic_sd_schedule_lookup(config["SCHEDULE"], highest, config["num_speculative_tokens"])[1:])
""".replace("SCHEDULE", SCHEDULE)
"""The K of every batch size from 1 to the highest, by vLLM's own reading of a config."""


@dataclass(frozen=True)
class Outcome:
    """A run, and what must have come of it by its own measurements."""

    finished: Finished
    path: Path
    """Of the config that a schedule is written to."""
    schedule: Schedule
    """Of one range: there is nothing to schedule, and nothing is written."""

    @property
    def said(self) -> str:
        """What pytest printed, without the folds that fit lines to the screen."""
        return " ".join(self.finished.output.split())

    @property
    def speculative_config(self) -> dict[str, Any]:
        """As it was written."""
        config: dict[str, Any] = json.loads(self.path.read_text("utf-8"))["speculative_config"]
        return config

    def comparison(self, config_id: str, concurrency: int) -> Comparison:
        """What was measured of one config at one load."""
        (found,) = (
            one
            for one in self.finished.document.comparisons.values()
            if one.config_id == config_id and one.load.concurrency == concurrency
        )
        return found


@pytest.fixture(scope="module", autouse=True)
def tolerant() -> Iterator[None]:
    """What was measured is read again here, as tolerantly as it was measured."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TOLERANCES.items():
            patch.setattr(stream_validity, name, value)
        yield


@pytest.fixture(scope="module")
def outcome(make_project: Callable[[str], LiveProject], tolerant: None) -> Outcome:  # noqa: ARG001 - used by being there
    """One session: two Ks at two loads, then the schedule."""
    project = make_project("dynamic")
    for name, k in CONFIGS.items():
        project.add_config(name, "../models/smollm2-135m-instruct", {**EAGLE3, K: k})
    project.add_tests(TESTS)
    project.start("--specdec-dynamic")
    finished = project.finish(timeout_s=1500)
    run = Outcome(finished, project.folder / "configs" / "long-dynamic.json", ())
    points = [
        KPoint(load, k, estimate(run.comparison(name, load), "tpot_gain").value)
        for (name, k), load in itertools.product(CONFIGS.items(), LOADS)
    ]
    return Outcome(finished, run.path, derive_schedule(points))


@pytest.fixture
def written(outcome: Outcome) -> Outcome:
    """A run that found something to schedule."""
    if len(outcome.schedule) == 1:
        pytest.skip(f"on this machine and in this run K = {outcome.schedule[0][2]} is best at every load")
    return outcome


def test_what_was_measured_is_scheduled_and_where_one_k_is_best_everywhere_the_run_says_so(outcome: Outcome) -> None:
    first, *others = outcome.schedule
    if others:
        ranges = [list(entry) for entry in outcome.schedule]
        assert outcome.speculative_config == {**EAGLE3, K: first[2], SCHEDULE: ranges}
        assert f"{SCHEDULE}: {ranges}" in outcome.said
    else:
        assert not outcome.path.exists()
        found = "no K gains anything" if first[2] == 0 else f"K = {first[2]} is best at every load"
        assert f"SKIPPED [1] test_gates.py:5: no schedule: {found}" in outcome.said


def test_the_schedule_is_gated_in_the_same_run_and_recommended_only_if_it_meets_its_gate_and_no_k_does_better(
    outcome: Outcome,
) -> None:
    judged = {gate.config_id: gate.judgement for gate in outcome.finished.document.gates}
    assert list(judged) == [*CONFIGS, *(["long-dynamic"] if len(outcome.schedule) > 1 else [])]
    assert set(judged.values()) <= {"ok", "FAIL", "unsure"}
    assert outcome.finished.exit_code == (0 if set(judged.values()) == {"ok"} else 1), outcome.finished.output
    fixed = [outcome.comparison(name, load) for name in CONFIGS for load in LOADS]
    gated = [outcome.comparison("long-dynamic", load) for load in LOADS] if "long-dynamic" in judged else []
    recommended = "recommended, its gate is ok: use configs/long-dynamic.json" in outcome.said
    assert recommended == (judged.get("long-dynamic") == "ok" and not better_fixed(gated, fixed))


def test_vllm_reads_the_schedule_as_a_k_for_every_batch_size_up_to_the_highest_load(written: Outcome) -> None:
    arguments = [json.dumps(written.speculative_config), str(LOADS[-1])]
    done = subprocess.run(
        [sys.executable, "-c", VLLM_SAYS, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    by_size = ast.literal_eval(done.stdout.splitlines()[-1])
    ranges = written.speculative_config[SCHEDULE]
    assert by_size == [k for first, last, k in ranges for _ in range(first, last + 1)]
    assert len(by_size) == LOADS[-1]
    assert by_size == sorted(by_size, reverse=True)


@pytest.mark.parametrize("load", LOADS)
def test_the_gated_server_was_launched_with_the_schedule_and_says_so(written: Outcome, load: int) -> None:
    comparison = written.comparison("long-dynamic", load)
    assert comparison.extra["schedule"] == str(written.speculative_config[SCHEDULE])
    (server,) = (server for server in comparison.servers if server.arm == "specdec")
    command = list(server.command)
    assert json.loads(command[command.index("--speculative-config") + 1]) == written.speculative_config
    assert server.facts is not None
    assert (
        ast.literal_eval(server.facts.arguments["speculative_config"])[SCHEDULE] == written.speculative_config[SCHEDULE]
    )
    assert not [change for change in server.changed_by_vllm if "dynamic speculation" in change]


def test_the_gated_server_drafts_what_the_schedule_says_for_one_request(written: Outcome) -> None:
    """Under a higher load batches shrink while a round ends, so that only one request at a time tells for sure."""
    counters = [run.counters for run in written.comparison("long-dynamic", LOADS[0]).arm("specdec")]
    drafted = sum(one.draft_tokens or 0 for one in counters) / sum(one.drafts or 0 for one in counters)
    k = written.speculative_config[K]
    assert k - 0.5 < drafted <= k
