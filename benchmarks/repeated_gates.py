"""Many comparisons whose truth is known, measured by the plugin itself: do the intervals hold it, how often is a verdict wrong?

    python benchmarks/repeated_gates.py coverage --comparisons 100
    python benchmarks/repeated_gates.py a-a --comparisons 20 --config example_suites/quickstart/ngram.json

``coverage`` runs against FakeVllm, where the plain server takes 10 ms a token and the speculating one 7 ms, each step and
each request with a jitter of 10 %: the true TPOT gain is 30 %. ``a-a`` starts the baseline of a config twice, on real vLLM, so
that every true gain is 0, and judges ``tpot_gain=0.05``, which the truth misses, and ``tpot_gain=-0.05``, which it meets.

Every comparison has a seed of its own, hence its own choice and order of prompts; servers are started once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

SUITE = """
import pytest

SEEDS = [pytest.param(seed, marks=pytest.mark.spec_load(seed=seed), id=str(seed)) for seed in range({comparisons})]

@pytest.mark.spec_load(workload={workload!r}, {load}, rounds={rounds}, max_rounds={rounds})
@pytest.mark.parametrize("seed", SEEDS)
def test_comparison(seed, spec_comparison):
    pass
"""
CONFTEST = """
import json
from pathlib import Path
from pytest_specdec.core.judge import judge
from pytest_specdec.core.verdict import Requirement

def pytest_specdec_measured(comparison):
    names = ("tpot_gain", "ttft_gain", "throughput_gain")
    requirements = [Requirement(name, margin) for name in names for margin in (0.05, -0.05)]
    row = [
        {{"objective": v.requirement.objective, "required": v.requirement.required, "outcome": v.outcome,
          "value": v.estimate.value, "low": v.estimate.low, "high": v.estimate.high, "level": v.estimate.level}}
        for v in judge(comparison, requirements)
    ]
    with Path({out!r}).open("a") as out:
        out.write(json.dumps(row) + "\\n")
"""
FAKE = {
    "model": "fake-model",
    "speculative_config": {"method": "eagle3", "model": "fake-head", "num_speculative_tokens": 3},
    "command": [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
    "env": {
        "FAKE_VLLM": json.dumps(
            {
                "tpot_ms": 10,
                "ttft_ms": 20,
                "jitter": 0.1,
                "request_jitter": 0.1,
                "answer_tokens": [24, 24],
                "specdec": {"step_ratio": 0.7, "acceptance": 0.0},
            }
        )
    },
}
TRUE_GAIN = 0.3


def main() -> int:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "a-a"))
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--config", type=Path, help="whose baseline a-a measures")
    parser.add_argument("--workload", default="chat")
    parser.add_argument(
        "--load", default="concurrency=2, num_requests=8, max_tokens=24", help="further words of spec_load"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every estimate there")
    arguments = parser.parse_args()
    if arguments.what == "a-a" and arguments.config is None:
        parser.error("a-a needs --config=FILE")
    with tempfile.TemporaryDirectory(prefix="specdec-repeated-") as folder:
        rows = measured(arguments, Path(folder))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows) + "\n")
    if len(rows) < arguments.comparisons:
        print(f"only {len(rows)} of {arguments.comparisons} comparisons could be measured", file=sys.stderr)
    (print_coverage if arguments.what == "coverage" else print_verdicts)(rows)
    return 0 if len(rows) == arguments.comparisons else 1


def measured(arguments: argparse.Namespace, folder: Path) -> list[list[dict[str, Any]]]:
    """One row of verdicts per comparison."""
    config, out = arguments.config, folder / "rows.jsonl"
    if arguments.what == "coverage":
        config = folder / "fake.json"
        config.write_text(json.dumps(FAKE))
    suite = SUITE.format(
        comparisons=arguments.comparisons, workload=arguments.workload, load=arguments.load, rounds=arguments.rounds
    )
    (folder / "test_suite.py").write_text(suite)
    (folder / "conftest.py").write_text(CONFTEST.format(out=str(out)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--specdec-config={config.resolve()}"]
    command += ["--rootdir", str(folder), f"--specdec-dir={folder / 'out'}", str(folder / "test_suite.py")]
    if arguments.what == "a-a":
        command.append("--specdec-self-test")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not out.exists():
        raise SystemExit(f"nothing was measured:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    errors = [line for line in done.stdout.splitlines() if "could not measure" in line or line.startswith("ERROR")]
    print("\n".join(errors), file=sys.stderr)
    return [json.loads(line) for line in out.read_text().splitlines()]


def print_coverage(rows: list[list[dict[str, Any]]]) -> None:
    """How many intervals hold the truth."""
    gains = [next(one for one in row if one["objective"] == "tpot_gain") for row in rows]
    held = sum(one["low"] <= TRUE_GAIN <= one["high"] for one in gains)
    above = sum(one["low"] > TRUE_GAIN for one in gains)
    widths = [one["high"] - one["low"] for one in gains]
    mean = statistics.fmean(one["value"] for one in gains)
    print(f"TPOT gain, truth {TRUE_GAIN:.0%}: {held} of {len(gains)} intervals at {gains[0]['level']:.0%} hold it")
    print(
        f"  {above} lie above, {len(gains) - held - above} below; mean {mean:.2%}, median width {statistics.median(widths):.2%}"
    )


def print_verdicts(rows: list[list[dict[str, Any]]]) -> None:
    """What was said where every true gain is 0."""
    print(f"{len(rows)} comparisons of the baseline with itself, true gain 0")
    for name in ("tpot_gain", "ttft_gain", "throughput_gain"):
        values = [one["value"] for row in rows for one in row if one["objective"] == name and one["required"] == 0.05]
        for required in (0.05, -0.05):
            outcomes = Counter(
                one["outcome"]
                for row in rows
                for one in row
                if one["objective"] == name and one["required"] == required
            )
            wrong = "ok" if required > 0 else "FAIL"
            counts = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in ("ok", "FAIL", "unsure"))
            print(f"  {name:<16} = {required:+.2f}: {counts}; wrong: {outcomes[wrong]}")
        spread = statistics.stdev(values)
        print(f"  {'':<16} values {min(values):+.2%} .. {max(values):+.2%}, standard deviation {spread:.2%}")


if __name__ == "__main__":
    sys.exit(main())
