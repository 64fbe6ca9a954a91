"""Does anything notice? Plants defects that measuring tools are known to have, one at a time, and looks who objects.

    python benchmarks/planted_defects.py

Each defect is one change to a copy of the package. The copy's tests run against it, and so does a small gate on FakeVllm that
passes with the package as it is. A defect is caught when a test fails, or when the gate does; the table says which. Exit
code 1 when one is not caught, or when the unchanged copy is not clean.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLOW = "tests/core/test_simulated_gates.py"
TESTS = (
    "tests/core",
    "tests/load",
    "tests/serving/test_prometheus.py",
    "tests/serving/test_command.py",
    "tests/reporting",
)


@dataclass(frozen=True)
class Defect:
    """One wrong line."""

    name: str
    file: str
    """Below ``pytest_specdec/``."""
    right: str
    """As it stands there, exactly once."""
    wrong: str


DEFECTS = (
    Defect(
        "chunks counted as tokens",
        "load/answer.py",
        "completion_tokens=stream.completion_tokens or 0,",
        "completion_tokens=len(stream.times),",
    ),
    Defect(
        "bonus token forgotten",
        "core/acceptance.py",
        "acceptance_length=1 + accepted / drafts if drafts else None,",
        "acceptance_length=accepted / drafts if drafts else None,",
    ),
    Defect(
        "one engine only",
        "serving/prometheus.py",
        "if sample.name == name]\n    return int(sum(values)) if values else None",
        "if sample.name == name]\n    return int(values[0]) if values else None",
    ),
    Defect(
        "counter reset ignored",
        "serving/prometheus.py",
        "    if after < before:\n",
        "    if after < before:\n        return after\n    if False:\n",
    ),
    Defect(
        "warm-up counted",
        "load/measure.py",
        "counters=reader.difference(before, after),",
        "counters=after,",
    ),
    Defect(
        "unpaired comparison",
        "core/gains.py",
        "log_ratio = np.log(pairs.spec / pairs.base)",
        "log_ratio = np.log(pairs.spec / np.random.default_rng(1).permutation(pairs.base))",
    ),
    Defect(
        "speculating server without speculation",
        "serving/command.py",
        '*(speculation if arm == "specdec" else ()),',
        "*(()),",
    ),
    Defect(
        "failed requests dropped",
        "load/measure.py",
        "        samples=seen.samples,",
        "        samples=tuple(sample for sample in seen.samples if sample.error is None),",
    ),
    Defect(
        "percent against fraction",
        "core/gains.py",
        "    return -math.expm1(log_ratio)",
        "    return -100 * math.expm1(log_ratio)",
    ),
    Defect(
        "baseline with speculation",
        "serving/command.py",
        '*(speculation if arm == "specdec" else ()),',
        "*speculation,",
    ),
)

GATE = """
import pytest

@pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=12, max_tokens=24, rounds=3, max_rounds=3, budget_s=60)
@pytest.mark.spec_slo(tpot_gain=0.1, min_acceptance_length=1.5)
def test_gate(spec_comparison):
    pass
"""
"""The fake server's truth: TPOT 24 ms, or less than half of it with three drafts accepted at 0.9, 0.8 and 0.7."""


def main() -> int:
    """Plant, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="WORDS", help="defects whose name holds these words")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the outcomes there, too")
    arguments = parser.parse_args()
    unchanged = Defect("(none)", "__init__.py", "", "")
    outcomes = []
    for defect in (unchanged, *DEFECTS):
        if defect is not unchanged and arguments.only and arguments.only not in defect.name:
            continue
        with tempfile.TemporaryDirectory(prefix="specdec-planted-") as folder:
            outcomes.append({"defect": defect.name, **outcome_of(defect, Path(folder))})
        print(f"{defect.name:40} tests: {outcomes[-1]['test']:90.90} gate: {outcomes[-1]['gate']}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(outcomes, indent=2) + "\n")
    clean, *planted = outcomes
    good = clean["test"] == "pass" and clean["gate"] == "passes"
    return 0 if good and all(one["test"] != "pass" or one["gate"] != "passes" for one in planted) else 1


def outcome_of(defect: Defect, folder: Path) -> dict[str, str]:
    """Who objects to a copy with this defect: the first failing test, and how the gate ends."""
    for name in ("pytest_specdec", "tests", "benchmarks", "docs", "pyproject.toml", "conftest.py"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    plant(defect, folder / "pytest_specdec")
    return {"test": first_failing_test(folder), "gate": gate_outcome(folder)}


def plant(defect: Defect, package: Path) -> None:
    """Change the line.

    Raises:
        ValueError: It is not there exactly once: the package has moved on, and the defect must be written anew.
    """
    path = package / defect.file
    text = path.read_text()
    if defect.right:
        if text.count(defect.right) != 1:
            raise ValueError(f"{defect.name}: {defect.file} holds its line {text.count(defect.right)} times")
        path.write_text(text.replace(defect.right, defect.wrong))


def first_failing_test(folder: Path) -> str:
    """Node id of the first failure; ``pass`` when all pass."""
    done = run(folder, folder, "-x", "-q", "--numprocesses=2", f"--ignore={SLOW}", *TESTS)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return "pass"
    return failed[1].removeprefix("tests/") if failed else f"exit code {done.returncode}"


def gate_outcome(folder: Path) -> str:
    """``passes``, or the first words of what the gate says."""
    project = folder / "project"
    project.mkdir()
    (project / "test_gate.py").write_text(GATE)
    (project / "tiny.jsonl").write_text(
        "".join(json.dumps({"prompt": f"Prompt {n}: go on."}) + "\n" for n in range(24))
    )
    config = {
        "model": "fake-model",
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
        "command": [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
        "env": {
            "FAKE_VLLM": json.dumps({"tpot_ms": 24, "ttft_ms": 5, "jitter": 0.05, "acceptance": [0.9, 0.8, 0.7]}),
            "PYTHONPATH": str(folder),
        },
        "workloads": {"tiny": {"path": "tiny.jsonl"}},
    }
    (project / "fake.json").write_text(json.dumps(config))
    done = run(folder, project, "--specdec-config=fake.json", "-q", "-p", "no:cacheprovider", "test_gate.py")
    if done.returncode == 0:
        return "passes"
    said = re.search(r"^(FAILED|ERROR) \S+ - (.+)", done.stdout, re.MULTILINE)
    return f"{said[1]}: {said[2]}" if said else f"exit code {done.returncode}"


def run(package: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the copy in front of what is installed."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
