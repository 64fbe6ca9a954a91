"""``pytest-specdec rules``: objectives of a suite, or of the acceptance procedure, as files for Prometheus and Grafana."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from pytest_specdec.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SELECTORS = ("--baseline", 'version="stable"', "--specdec", '{version="canary"}')
SUITE = """
import pytest

pytestmark = pytest.mark.spec_slo(tpot_gain=0.2)

@pytest.mark.spec_slo(min_acceptance_at={0: 0.7}, throughput_gain=0)
def test_a(spec_comparison): pass

@pytest.mark.spec_slo(tpot_gain=None, min_acceptance_length=1.5)
def test_b(spec_canary): pass

def test_c(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "test_suite.py"
    path.write_text(SUITE)
    return path


def alerts(folder: Path) -> dict[str, str]:
    content = yaml.safe_load((folder / "specdec-rules.yml").read_text())
    return {
        rule["alert"]: rule["expr"] for rule in content["groups"][0]["rules"] if "objective" in rule.get("labels", {})
    }


def test_marks_of_a_suite_become_rules(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", str(suite), *SELECTORS, "--out", str(tmp_path / "out")]) == 0
    assert alerts(tmp_path / "out") == {
        "SpecdecTpotGain": "specdec:tpot_gain < 0.2",
        "SpecdecMinAcceptanceAt0": "specdec:min_acceptance_at:0 < 0.7",
        "SpecdecMinAcceptanceLength": "specdec:min_acceptance_length < 1.5",
    }
    out = capsys.readouterr().out
    assert "tpot_gain: 0.2   (test_suite.py::test_a)" in out
    assert "left out, as counters do not tell it: throughput_gain" in out
    board = json.loads((tmp_path / "out" / "specdec-dashboard.json").read_text())
    assert len(board["panels"]) == 5


def test_tests_are_chosen_and_objectives_added(suite: Path, tmp_path: Path) -> None:
    further = ("-k", "test_b", "--slo", "max_failure_share=0.01", "--slo", "min_acceptance_length=2")
    assert main(["rules", str(suite), *SELECTORS, "--out", str(tmp_path), *further]) == 0
    assert alerts(tmp_path) == {
        "SpecdecMaxFailureShare": "specdec:max_failure_share > 0.01",
        "SpecdecMinAcceptanceLength": "specdec:min_acceptance_length < 2.0",
    }


def test_config_takes_the_thresholds_of_the_acceptance_procedure(tmp_path: Path) -> None:
    config = tmp_path / "ngram.json"
    config.write_text('{"method": "ngram", "num_speculative_tokens": 3}')
    assert main(["rules", str(config), *SELECTORS, "--out", str(tmp_path)]) == 0
    assert alerts(tmp_path) == {
        "SpecdecMinAcceptanceLength": "specdec:min_acceptance_length < 1.5",
        "SpecdecTpotGain": "specdec:tpot_gain < 0.3",
        "SpecdecMaxFailureShare": "specdec:max_failure_share > 0.01",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_a(): pass", "no test there has an objective"),
        ("def broken(", "its tests cannot be collected"),
        (SUITE.replace("0.2", "20"), "did you mean 0.2?"),
        (
            "import pytest\n@pytest.mark.spec_slo(throughput_gain=0)\ndef test_a(spec_comparison): pass",
            "no objective that live traffic tells",
        ),
    ],
)
def test_suite_that_gives_nothing_to_watch(
    text: str, said: str, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite.write_text(text)
    assert main(["rules", str(suite), *SELECTORS, "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert not (tmp_path / "specdec-rules.yml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--baseline", "stable", "--specdec", 'a="b"'), "'stable' is no label selector"),
        ((*SELECTORS, "--window", "10"), "'10' is no length of time"),
        ((*SELECTORS, "--slo", "tpot_gain=30"), "did you mean 0.3?"),
    ],
)
def test_arguments_that_mean_nothing(
    arguments: tuple[str, ...], said: str, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", str(suite), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_config_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.json").write_text('{"method": "ngram", "num_speculative_tokens": -1}')
    assert main(["rules", str(tmp_path / "c.json"), *SELECTORS]) == 2
    assert "num_speculative_tokens" in capsys.readouterr().err
