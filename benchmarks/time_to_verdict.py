"""How long until it is known whether speculation pays: one gate, or vLLM's own tools one after the other.

The gate is one pytest run over two request rates. The manual procedure is what the field does: vLLM's offline engine for the acceptance
length, then ``vllm bench serve`` at both rates on a plain server, and again on a speculating one. It goes on with the speculating server until the
interval of the TPOT gain is as narrow at both rates as the gate's, or until so many passes were made as are allowed. Both get the same prompts,
greedy, with the same flags of the server, and nothing else should run beside them.

    python benchmarks/time_to_verdict.py --vllm-python .venv/bin/python --model models/smollm2-135m-instruct

The bench's interpreter needs pandas (``PYTHONPATH`` is passed on).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agreement import BENCH
from scipy import stats

from pytest_specdec.commands.offline import planned, run_planned
from pytest_specdec.core.acceptance import acceptance_of
from pytest_specdec.core.config import load_configs
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.workload import read_workload
from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.serving.command import plan_launch
from pytest_specdec.serving.pool import free_port
from pytest_specdec.serving.process import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm

ROOT = Path(__file__).resolve().parents[1]
GATE = """
import pytest

RATES = [pytest.param(rate, marks=pytest.mark.spec_load(request_rate=rate)) for rate in {rates}]

@pytest.mark.parametrize("rate", RATES)
@pytest.mark.spec_load(workload={workload!r}, num_requests={requests}, max_tokens={tokens}, rounds={rounds}, max_rounds={rounds})
@pytest.mark.spec_slo(tpot_gain={gain}, min_acceptance_length={length})
def test_speculation_pays(spec_comparison, rate):
    pass
"""


@dataclass(frozen=True)
class Answer:
    """What a procedure found, and how long it took."""

    wall_s: float
    acceptance_length: float
    gains: dict[float, tuple[float, float, float]]
    """By request rate: TPOT gain, and its interval."""
    steps: dict[str, float]
    """Seconds of its parts."""

    def widest(self, rate: float) -> float:
        """Width of the interval at a rate."""
        _, low, high = self.gains[rate]
        return high - low


def main() -> int:
    """Both procedures, the ratio of their times; 1 where they decide differently or the goal is missed."""
    options = read_options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = config_of(options, folder)
        gate = by_gate(options, folder)
        show("one gate", gate, options)
        manual = by_hand(options, config, folder, gate)
        show("by hand", manual, options)
    ratio = gate.wall_s / manual.wall_s
    same = decisions(gate, options) == decisions(manual, options)
    print(
        f"the gate takes {ratio:.2f} of the manual procedure's time; the decisions are {'the same' if same else 'NOT the same'}"
    )
    return 0 if same and ratio <= options.goal else 1


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", default=sys.executable, help="interpreter that has vLLM (default: this one)")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--draft", type=Path, default=ROOT / "example_suites" / "drafts" / "smollm2-135m-eagle3")
    parser.add_argument("--serve", type=json.loads, default={"enforce_eager": True, "max_model_len": 2048})
    parser.add_argument("--env", type=json.loads, default={"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"})
    parser.add_argument("--workload", type=Path, default=ROOT / "pytest_specdec" / "workloads" / "chat.jsonl")
    parser.add_argument("--rates", type=float, nargs=2, default=[0.5, 2.0], help="requests per second")
    parser.add_argument("--requests", type=int, default=32, help="of a round (default 32)")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4, help="of the gate, and passes of the bench (default 4)")
    parser.add_argument(
        "--max-passes", type=int, default=12, help="of the bench on the speculating server (default 12)"
    )
    parser.add_argument("--gain", type=float, default=0.0, help="TPOT gain that is asked for")
    parser.add_argument("--length", type=float, default=1.5, help="acceptance length that is asked for")
    parser.add_argument("--goal", type=float, default=0.6, help="of the manual procedure's time (default 0.6)")
    return parser.parse_args()


def config_of(options: argparse.Namespace, folder: Path) -> SpecConfig:
    """The config that both procedures use."""
    envelope = {
        "model": str(options.model.resolve()),
        "speculative_config": {"method": "eagle3", "model": str(options.draft.resolve()), "num_speculative_tokens": 3},
        "serve": options.serve,
        "env": options.env,
        "command": [options.vllm_python, "-m", "vllm.entrypoints.openai.api_server"],
    }
    path = folder / "eagle3.json"
    path.write_text(json.dumps(envelope))
    (config,), _ = load_configs([path], default_model=None)
    return config


def by_gate(options: argparse.Namespace, folder: Path) -> Answer:
    """One pytest run."""
    test = folder / "test_gate.py"
    test.write_text(
        GATE.format(
            workload=str(options.workload.resolve()),
            rates=options.rates,
            requests=options.requests,
            tokens=options.max_tokens,
            rounds=options.rounds,
            gain=options.gain,
            length=options.length,
        )
    )
    words = ["-q", "--specdec-config=eagle3.json", "--specdec-dir=out", "-p", "no:cacheprovider", str(test)]
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path()},
    )
    wall_s = time.monotonic() - began_s
    if done.returncode not in (0, 1) or not (folder / "out" / "results.json").exists():
        raise SystemExit(f"the gate ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    document = read_result(folder / "out" / "results.json")
    for gate in document.gates:
        if gate.outcome == "error":
            raise SystemExit(f"the gate could not be measured: {gate.message}")
    gains = {}
    lengths = []
    from pytest_specdec.core.judge import Figures

    for comparison in document.comparisons.values():
        figures = Figures(comparison)
        gain, why = figures.of("tpot_gain")
        length, _ = figures.of("min_acceptance_length")
        if gain is None or gain.low is None or gain.high is None or comparison.load.request_rate is None:
            raise SystemExit(f"no TPOT gain at {comparison.load.at}: {why}")
        gains[comparison.load.request_rate] = (gain.value, gain.low, gain.high)
        lengths.append(length.value if length else math.nan)
    one, *_ = document.comparisons.values()
    steps = {
        "start of both servers": max(server.startup_s for server in one.servers),
        "warm-up": sum(comparison.warmup_s for comparison in document.comparisons.values()),
        "rounds": sum(comparison.time.rounds_s for comparison in document.comparisons.values() if comparison.time),
    }
    return Answer(wall_s, statistics.fmean(lengths), gains, steps)


def path() -> str:
    """``PYTHONPATH`` for what is started here."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


def by_hand(options: argparse.Namespace, config: SpecConfig, folder: Path, gate: Answer) -> Answer:
    """Offline acceptance, then the bench on one server after the other."""
    load = LoadSpec(workload=str(options.workload), num_requests=options.requests, max_tokens=options.max_tokens)
    workload = read_workload(options.workload, name="chat")
    plan = planned(workload, load)
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": request.prompt.text}) + "\n" for request in plan))
    steps: dict[str, float] = {}
    began_s = time.monotonic()
    offline = run_planned(config, "specdec", plan, load, directory=folder / "offline")
    steps["offline acceptance"] = time.monotonic() - began_s
    length = acceptance_of(offline.counters).acceptance_length
    tpots: dict[tuple[Arm, float], list[list[float]]] = {}

    def one_pass(server: Server, arm: Arm) -> None:
        for rate in options.rates:
            tpots.setdefault((arm, rate), []).append(bench(options, server, prompts, rate, folder))

    with serving(config, "baseline", folder) as server:
        steps["start of the plain server"] = server.record.startup_s
        for _ in range(options.rounds):
            one_pass(server, "baseline")
    with serving(config, "specdec", folder) as server:
        steps["start of the speculating server"] = server.record.startup_s
        for done in range(1, options.max_passes + 1):
            one_pass(server, "specdec")
            if done < options.rounds:
                continue
            gains = {rate: gain_of(tpots["baseline", rate], tpots["specdec", rate]) for rate in options.rates}
            wide = [rate for rate in options.rates if gains[rate][2] - gains[rate][1] > gate.widest(rate)]
            if not wide:
                break
    wall_s = time.monotonic() - began_s
    steps["passes of the bench on the speculating server"] = done
    if wide:
        print(
            f"by hand the intervals stayed wider than the gate's after {done} passes, at {', '.join(f'{rate:g}' for rate in wide)} per second"
        )
    return Answer(wall_s, length or math.nan, gains, steps)


@contextlib.contextmanager
def serving(config: SpecConfig, arm: Arm, folder: Path) -> Iterator[Server]:
    """A server, up and then ended."""
    launch = plan_launch(config, arm, port=free_port(), served_name=arm)
    server = Server.launch(
        launch, log_path=folder / f"{arm}.log", startup_timeout_s=900, silence_timeout_s=600, progress=lambda _: None
    )
    try:
        yield server
    finally:
        server.stop()


def bench(options: argparse.Namespace, server: Server, prompts: Path, rate: float, folder: Path) -> list[float]:
    """TPOT of each request of one run of ``vllm bench serve``, in the order of the prompts; NaN where there is none."""
    result = folder / "bench.json"
    result.unlink(missing_ok=True)
    flags = f"""
        --backend openai-chat --endpoint /v1/chat/completions --base-url {server.base_url} --served-model-name {server.served_name}
        --model {options.model.resolve()} --dataset-name custom --dataset-path {prompts} --custom-output-len {options.max_tokens}
        --skip-chat-template --disable-shuffle --num-prompts {options.requests} --request-rate {rate}
        --temperature 0 --top-p 1 --top-k -1 --num-warmups 2 --ready-check-timeout-sec 0 --disable-tqdm
        --save-result --save-detailed --result-dir {folder} --result-filename {result.name}
    """.split()
    done = subprocess.run(
        [options.vllm_python, "-c", BENCH, *flags], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    if done.returncode or not result.exists():
        raise SystemExit(f"vllm bench serve exited with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    data: dict[str, Any] = json.loads(result.read_text())
    if data["failed"]:
        raise SystemExit(f"{data['failed']} requests of vllm bench serve failed")
    return [
        sum(gaps) / (tokens - 1) if tokens > 1 and sum(gaps) > 0 else math.nan
        for gaps, tokens in zip(data["itls"], data["output_lens"], strict=True)
    ]


def gain_of(base: list[list[float]], spec: list[list[float]]) -> tuple[float, float, float]:
    """TPOT gain from ratios paired by prompt, Welch's interval over the passes of both servers."""
    means = [
        [statistics.fmean(math.log(one) for one in run if not math.isnan(one)) for run in arm] for arm in (base, spec)
    ]
    (mine, theirs), (n, m) = means, map(len, means)
    value = statistics.fmean(theirs) - statistics.fmean(mine)
    parts = statistics.variance(mine) / n, statistics.variance(theirs) / m
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1))
    half = float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(parts))
    return 1 - math.exp(value), 1 - math.exp(value + half), 1 - math.exp(value - half)


def decisions(answer: Answer, options: argparse.Namespace) -> tuple[str, ...]:
    """ok, FAIL or unsure for the gain at each rate, and for the acceptance length."""
    found = [
        "ok" if low >= options.gain else "FAIL" if high < options.gain else "unsure"
        for _, low, high in answer.gains.values()
    ]
    return (*found, "ok" if answer.acceptance_length >= options.length else "FAIL")


def show(name: str, answer: Answer, options: argparse.Namespace) -> None:
    """What came out, and what it took."""
    print(
        f"{name}: {answer.wall_s:.0f} s; acceptance length {answer.acceptance_length:.2f}; {', '.join(decisions(answer, options))}"
    )
    for rate, (gain, low, high) in answer.gains.items():
        print(f"  TPOT gain at {rate:g} per second {100 * gain:.1f} % ({100 * low:.1f} .. {100 * high:.1f})")
    for step, seconds in answer.steps.items():
        print(f"  {step}: {seconds:.0f}" + ("" if step.startswith("passes") else " s"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
