"""What it costs to judge a large measurement, to draw its report, and to open a large result file.

Makes up 12 rounds of 2,000 requests for both servers and judges every objective that one measurement can be judged by; draws the HTML report of
it; and opens a result file of 100,000 requests with ``pytest-specdec show``. Each in a process of its own, which reports its seconds and how far
its memory grew beyond what it held before (the records themselves, and the modules).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import Comparison, RequestSample
    from pytest_specdec.core.verdict import Requirement, Verdict

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
VALUES: dict[str, object] = {
    "goodput_gain": {"gain": 0.0, "ttft_ms": 60, "tpot_ms": 10},
    "min_goodput": {"share": 0.9, "ttft_ms": 60, "tpot_ms": 10},
    "min_acceptance_at": {0: 0.5, 1: 0.3, 2: 0.2},
    "lossless": True,
    "max_regression": {"tpot": 0.5, "acceptance_length": 0.5, "tpot_gain": 0.5},
}
"""What is asked of objectives that take no plain number; the others are asked for 0.5."""


def main() -> int:
    """Make up, measure each step, print the table; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=2000, help="requests a round, of each server (default 2000)")
    parser.add_argument("--show-requests", type=int, default=100_000, help="requests of the file that show opens")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of every answer (default 128)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each step is measured; the median counts")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--step", choices=("write", *STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "write":
        write(
            options.file,
            made_up(rounds=options.rounds, requests=options.requests, tokens=options.tokens, answers=options.answers),
        )
        return 0
    if options.step:
        print(json.dumps(STEPS[options.step](options.file)))
        return 0

    sizes = {
        "judge": (options.rounds, options.requests),
        "html": (options.rounds, options.requests),
        "show": (max(1, options.show_requests // 2 // options.requests), options.requests),
    }
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        files: dict[tuple[int, int], Path] = {}
        for step, (rounds, requests) in sizes.items():
            file = files.setdefault((rounds, requests), Path(name, f"{rounds}x{requests}.json"))
            if not file.exists():
                words = ["--answers"] if step == "judge" else []
                words += ["--rounds", str(rounds), "--requests", str(requests), "--tokens", str(options.tokens)]
                in_own_process("write", file, words)
            runs = [json.loads(in_own_process(step, file)) for _ in range(options.repeats)]
            figures[step] = median_of(runs) | {"requests": 2 * rounds * requests, "file_mib": file.stat().st_size / MIB}
    missed = print_table(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(missed)


def in_own_process(step: str, file: Path, words: list[str] | None = None) -> str:
    """What a step prints."""
    command = [sys.executable, __file__, "--step", step, "--file", str(file), *(words or [])]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def median_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """The middle of each figure; the lower middle of an even number."""
    return {key: sorted(run[key] for run in runs)[(len(runs) - 1) // 2] for key in runs[0]}


GOALS = {"judge": (1.0, 200e6 / MIB), "html": (3.0, None), "show": (2.0, None)}
"""Seconds, and MiB beyond what was held before."""


def print_table(figures: dict[str, dict[str, float]]) -> bool:
    """One line per step; whether a goal is missed."""
    print(f"{'step':<8}{'requests':>10}{'file':>10}{'wall':>9}{'user CPU':>10}{'goal':>7}{'memory':>12}{'goal':>10}")
    missed = False
    for step, one in figures.items():
        goal_s, goal_mib = GOALS[step]
        missed |= one["user_s"] > goal_s or (goal_mib is not None and one["memory_mib"] > goal_mib)
        memory_goal = "" if goal_mib is None else f"{goal_mib:.0f} MiB"
        print(
            f"{step:<8}{one['requests']:>10.0f}{one['file_mib']:>6.1f} MiB{one['wall_s']:>7.2f} s{one['user_s']:>8.2f} s"
            f"{goal_s:>5.0f} s{one['memory_mib']:>8.0f} MiB{memory_goal:>10}"
        )
    return missed


def requirements(comparison: Comparison) -> list[Requirement]:
    """Every objective that a measurement can be judged by."""
    from pytest_specdec.core.objectives import REGISTRY

    without = {"sweep"} | ({"outputs"} if comparison.outputs is None else set())
    return [
        requirement
        for objective in REGISTRY.values()
        if objective.kind not in without
        for requirement in objective.parse(VALUES.get(objective.name, 0.5 if objective.unit != "tokens" else 1.5))
    ]


def write(file: Path, comparison: Comparison) -> None:
    """A result file with one gate, judged."""
    from pytest_specdec.core.results import GateRecord, ResultDocument
    from pytest_specdec.reporting.result_file import write_result

    gate = GateRecord("test_large.py::test_gate", "eagle3", "failed", "large", judged(comparison))
    write_result(
        ResultDocument(created_unix_s=0.0, environment={}, comparisons={"large": comparison}, gates=(gate,)), file
    )


def made_up(*, rounds: int, requests: int, tokens: int, answers: bool) -> Comparison:
    """A valid measurement of two classes of prompts, noisy, with what objectives ask about servers.

    Args:
        rounds: Of both servers.
        requests: A round, of each server.
        tokens: Of every answer.
        answers: Whether answers were compared, too.
    """
    from pytest_specdec.core.answer_form import AnswerForm
    from pytest_specdec.core.samples import DeviceReading
    from pytest_specdec.core.server_facts import ServerFacts
    from tests.core.class_builder import two_classes
    from tests.core.comparison_builder import change_runs, change_samples
    from tests.core.output_builder import outputs_of

    def looked_at(sample: RequestSample) -> RequestSample:
        return replace(sample, form=AnswerForm(repeated_share=0.1, blank=False, damaged=False))

    comparison = two_classes(
        code=requests // 2,
        chat=requests - requests // 2,
        rounds=rounds,
        tokens=tokens,
        noise=0.05,
        prompt_spread=0.1,
        round_drift=0.02,
    )
    cache_tokens = {"baseline": "100,000", "specdec": "90,000"}
    devices = (DeviceReading(0, server_memory_gib=20.0),)
    noise = dict.fromkeys(range(0, requests, 10), 0.2)
    return replace(
        change_runs(change_samples(comparison, looked_at), lambda run: replace(run, devices=devices)),
        load=replace(comparison.load, ignore_eos=True, max_tokens=tokens, rounds=min(4, rounds), max_rounds=rounds),
        servers=tuple(
            replace(server, facts=ServerFacts(effective={"KV cache tokens": cache_tokens[server.arm]}))
            for server in comparison.servers
        ),
        outputs=outputs_of(prompts=requests, rounds=rounds, noise=noise) if answers else None,
    )


def judged(comparison: Comparison) -> tuple[Verdict, ...]:
    """Verdicts of every objective; the measurement itself is the saved one that it is held against."""
    from pytest_specdec.core.judge import judge
    from pytest_specdec.core.saved import Saved

    return judge(comparison, requirements(comparison), saved_for=lambda now: Saved("itself", now))


def measure_judging(file: Path) -> dict[str, float]:
    """Verdicts of a measurement that is in memory."""
    from pytest_specdec.core import judge, limits, objectives, regression, saved  # noqa: F401 - what judging imports late
    from pytest_specdec.reporting.result_file import read_result

    comparison = read_result(file).comparisons["large"]
    return cost_of(lambda: judged(comparison))


def measure_report(file: Path) -> dict[str, float]:
    """The page of a document that is in memory."""
    from pytest_specdec.reporting.report_files import rendered
    from pytest_specdec.reporting.result_file import read_result

    document = read_result(file)
    return cost_of(lambda: rendered(document, "html"))


def measure_show(file: Path) -> dict[str, float]:
    """The whole command, Python's start included."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_specdec.cli", "show", str(file)], stdout=subprocess.DEVNULL
    )
    started_s = time.perf_counter()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"show exited with {process.returncode}")
    return {"wall_s": wall_s, "user_s": usage.ru_utime, "memory_mib": usage.ru_maxrss / 1024}


STEPS = {"judge": measure_judging, "html": measure_report, "show": measure_show}


def cost_of(work: Callable[[], object]) -> dict[str, float]:
    """Seconds, and how far resident memory rose above what it was before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before_mib = resident_mib("VmRSS")
    started_s, cpu = time.perf_counter(), os.times()
    work()
    return {
        "wall_s": time.perf_counter() - started_s,
        "user_s": os.times().user - cpu.user,
        "memory_mib": resident_mib("VmHWM") - before_mib,
    }


def resident_mib(name: str) -> float:
    """A line of this process's status, such as ``VmHWM``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    sys.exit(main())
