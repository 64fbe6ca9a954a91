"""The suites that a newcomer runs: the quickstart passes, and the failing one fails for the reason it is kept for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core import stream_validity
from pytest_specdec.core.ranking import rankings
from pytest_specdec.reporting.result_file import read_result
from tests.e2e.live_project import TOLERANCES, make_tolerant

if TYPE_CHECKING:
    from pytest_specdec.core.results import ResultDocument

SUITES = Path(__file__).resolve().parents[2] / "example_suites"


@pytest.fixture(scope="module")
def copied(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suites beside a ``models`` folder, as in the repository."""
    root = tmp_path_factory.mktemp("examples")
    shutil.copytree(SUITES, root / "example_suites", ignore=shutil.ignore_patterns("__pycache__", ".specdec"))
    (root / "models").mkdir()
    (root / "models" / "smollm2-135m-instruct").symlink_to(model_folder)
    make_tolerant(root)
    return root


def run_suite(root: Path, suite: str, *configs: str) -> tuple[int, str, ResultDocument]:
    given = [f"--specdec-config=example_suites/quickstart/{name}" for name in configs]
    command = [sys.executable, "-m", "pytest", *given, f"--junitxml={suite}.xml", f"example_suites/{suite}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=3000, check=False)
    print(done.stdout)  # noqa: T201 - pytest shows it where a test fails
    results = root / ".specdec" / "results.json"
    assert results.exists(), done.stdout + done.stderr
    return done.returncode, done.stdout, read_result(results)


def test_the_quickstart_is_judged_and_ranks_its_configs(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether times meet their objectives is up to the machine and what else it has to do; all else is certain."""
    for name, value in TOLERANCES.items():
        monkeypatch.setattr(stream_validity, name, value)  # here, too
    exit_code, output, document = run_suite(copied, "quickstart", "")  # the folder, with both configs
    assert [gate.config_id for gate in document.gates] == ["eagle3", "eagle3", "ngram", "ngram"]
    assert exit_code == (0 if all(gate.judgement == "ok" for gate in document.gates) else 1), output
    verdicts = [verdict for gate in document.gates for verdict in gate.verdicts]
    lengths = [one.outcome for one in verdicts if one.requirement.objective == "min_acceptance_length"]
    gains = [one.outcome for one in verdicts if one.requirement.objective == "tpot_gain"]
    assert lengths == ["ok"] * 3, output
    assert len(gains) == 4, output
    baselines = {
        server.log for one in document.comparisons.values() for server in one.servers if server.arm == "baseline"
    }
    assert len(baselines) == 1, baselines
    ranked = {ranking.workload: ranking for ranking in rankings(document.comparisons.values())}
    assert set(ranked) == {"edits.jsonl", "chat"}
    for ranking in ranked.values():
        assert {one.config_id for one in ranking.contenders} == {"eagle3", "ngram"}
        (duel,) = ranking.duels
        assert "request by request" in duel.less_time.basis  # the same prompts in the same rounds, whatever the config
    for line in (
        "ranking by speed per token: edits.jsonl",
        "ranking by speed per token: chat",
        "advice for ngram, chat:",
    ):
        assert line in output


def test_the_acceptance_procedure_ends_in_an_advice(copied: Path) -> None:
    small = ("workloads=chat", "requests=4", "max_tokens=16", "rounds=3", "low=1", "high=2")
    # A fifth of the speed, and less: what is tested is that every step works, on a machine that has other things to do, too.
    lax = ("acceptance_length=1", "tpot_gain=-4.5", "throughput_gain=-0.99")
    settings = [f"--specdec-acceptance={one}" for one in (*small, *lax)]
    config = "--specdec-config=example_suites/quickstart/eagle3.json"
    command = [sys.executable, "-m", "pytest", "--pyargs", "pytest_specdec.acceptance", config, *settings]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True, timeout=3000, check=False)
    print(done.stdout)  # noqa: T201 - as above
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed, 1 skipped" in done.stdout
    assert "eagle3: ../drafts/smollm2-135m-eagle3 is an eagle3 draft" in done.stdout
    assert "of the words of 8 answers (chat) could be looked up" in done.stdout
    assert "advice for eagle3, chat: " in done.stdout
    document = read_result(copied / ".specdec" / "results.json")
    assert sorted(one.load.concurrency or 0 for one in document.comparisons.values()) == [1, 2]


def test_the_failing_suite_blocks_and_says_why(copied: Path) -> None:
    exit_code, output, document = run_suite(copied, "failing", "ngram.json")
    assert exit_code == 1, output
    (gate,) = document.gates
    assert gate.outcome == "failed"
    # On a noisy machine the miss may not be proven, which fails the gate as well.
    assert {v.requirement.objective: v.outcome for v in gate.verdicts}["tpot_gain"] in ("FAIL", "unsure"), output
    (failure,) = ET.parse(copied / "failing.xml").iter("failure")  # noqa: S314 - pytest's own file
    assert "tpot_gain" in failure.attrib["message"]
    assert any("draft" in line for line in gate.explanation), output
