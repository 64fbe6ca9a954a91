"""Does our client see what ``vllm bench serve`` sees? Both measure one running server with the same prompts.

Times are compared request by request: each prompt is sent once by :func:`run_arm` and once by the bench's own request
function, a few prompts at a time in changing order, so that the load of the machine falls on both alike; reported are the
geometric mean of the ratios ours / bench with a t interval over the requests, and their median with the exact interval of
order statistics. Acceptance is compared over whole runs: ours, and one of ``vllm bench serve`` with its own count and with
ours around it.

By design our requests ask for token ids (a little more text in each chunk), and we take the time before a chunk is parsed.

    python benchmarks/agreement.py --vllm-python VENV/bin/python --model MODEL --spec '{"method": "ngram", ...}'

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
import tempfile
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy import stats

from pytest_specdec.core.acceptance import acceptance_of
from pytest_specdec.core.config import load_configs
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.metrics import tpot_s, ttft_s
from pytest_specdec.core.quantiles import order_statistic_ranks
from pytest_specdec.load.arrivals import PlannedRequest, plan_requests
from pytest_specdec.load.measure import Endpoint, run_arm, warm_up
from pytest_specdec.load.workload import Prompt, Workload, read_workload
from pytest_specdec.serving.command import plan_launch
from pytest_specdec.serving.pool import free_port
from pytest_specdec.serving.process import Server
from pytest_specdec.serving.prometheus import difference, parse_scrape, running_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specdec.core.samples import ArmRun, ServerCounters

# ``vllm bench serve`` without the ``vllm`` script, which needs package metadata that the CPU wheel lacks.
BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
# Its request function alone: one line of JSON in for each request, one line out.
BENCH_REQUESTS = """
import asyncio, json, sys
import aiohttp
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_completions

async def main(url):
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        print("ready", flush=True)
        # In a thread: the loop must run to notice when the server closes an idle connection.
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = RequestFuncInput(api_url=url, prompt_len=1, ignore_eos=True, **json.loads(line))
            seen = await async_request_openai_completions(asked, session)
            seconds = {"ttft_s": seen.ttft, "tpot_s": (seen.latency - seen.ttft) / max(seen.output_tokens - 1, 1)}
            print(json.dumps({"error": seen.error, **seconds}), flush=True)

asyncio.run(main(sys.argv[1]))
"""
BLOCK = 10
"""Requests that one tool sends before the other sends the same: a run of ours begins with what a run begins with."""
GREEDY = {"temperature": 0, "top_p": 1, "top_k": -1}


@dataclass(frozen=True)
class Setting:
    """What both tools measure."""

    vllm_python: str
    model: Path
    speculates: bool
    server: Server
    endpoint: Endpoint
    load: LoadSpec
    plan: tuple[PlannedRequest, ...]
    folder: Path
    """For files that the bench wants."""


@dataclass(frozen=True)
class Times:
    """What one tool saw of one request."""

    tpot_s: float
    ttft_s: float


def main() -> None:
    """Launch a server, compare, print."""
    options = read_options()
    workload = plain_text(read_workload(options.workload, name="agreement"))
    load = LoadSpec(concurrency=1, num_requests=options.requests, max_tokens=options.max_tokens, ignore_eos=True)
    with tempfile.TemporaryDirectory() as directory:
        server = launch(options, Path(directory))
        try:
            setting = Setting(
                vllm_python=options.vllm_python,
                model=options.model,
                speculates=options.spec is not None,
                server=server,
                endpoint=Endpoint(server.base_url, server.served_name),
                load=load,
                plan=plan_requests(workload, load, round_index=0, fresh=False),
                folder=Path(directory),
            )
            warm_up(setting.endpoint, workload, load, alive=server.check_alive)
            compare_times(setting)
            compare_acceptance(setting)
        finally:
            server.stop()


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", required=True, help="interpreter that has vLLM")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--spec", type=json.loads, help="vLLM's speculative config; without it the server is plain")
    parser.add_argument("--serve", type=json.loads, default={"enforce_eager": True, "max_model_len": 2048})
    bundled = Path(__file__).parent.parent / "pytest_specdec" / "workloads" / "code.jsonl"
    parser.add_argument("--workload", type=Path, default=bundled)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=48)
    return parser.parse_args()


def plain_text(workload: Workload) -> Workload:
    """The prompts as text for the completions endpoint, which is all that the bench's custom data set knows."""
    prompts = tuple(Prompt(index=prompt.index, prompt=prompt.text) for prompt in workload.prompts)
    return replace(workload, prompts=prompts)


def launch(options: argparse.Namespace, folder: Path) -> Server:
    """One server; without a prefix cache, so that the tool that comes second finds nothing prepared."""
    envelope = {
        "model": str(options.model.resolve()),
        "speculative_config": options.spec or {"method": "ngram", "num_speculative_tokens": 1},
        "serve": {"enable_prefix_caching": False, **options.serve},
        "command": [options.vllm_python, "-m", "vllm.entrypoints.openai.api_server"],
    }
    path = folder / "agreement.json"
    path.write_text(json.dumps(envelope))
    (config,), _ = load_configs([path], default_model=None)
    plan = plan_launch(config, "specdec" if options.spec else "baseline", port=free_port(), served_name="agreement")
    return Server.launch(
        plan, log_path=folder / "server.log", startup_timeout_s=600, silence_timeout_s=300, progress=lambda _: None
    )


def compare_times(setting: Setting) -> None:
    """Every request by both tools, a few at a time."""
    pairs: list[tuple[Times, Times]] = []
    with bench_requests(setting) as bench:
        bench(setting.plan[0])  # the first of a process is slower, as ours was in the warm-up
        for place in range(0, len(setting.plan), BLOCK):
            block = setting.plan[place : place + BLOCK]
            if place // BLOCK % 2 == 0:
                ours = our_times(setting, block)
                theirs = [bench(request) for request in block]
            else:
                theirs = [bench(request) for request in block]
                ours = our_times(setting, block)
            pairs += zip(ours, theirs, strict=True)
    print_ratios("TPOT", [(ours.tpot_s, theirs.tpot_s) for ours, theirs in pairs])
    print_ratios("TTFT", [(ours.ttft_s, theirs.ttft_s) for ours, theirs in pairs])


def print_ratios(name: str, pairs: Sequence[tuple[float, float]]) -> None:
    """Ours / bench: geometric mean and median, each with its interval at 95 %."""
    logs = sorted(math.log(ours / theirs) for ours, theirs in pairs)
    mean, half = statistics.fmean(logs), 0.0
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = (
        math.nan if rank is None else math.exp(logs[rank - 1]) for rank in order_statistic_ranks(len(logs), 0.5, 0.95)
    )
    means_ms = [1000 * statistics.fmean(column) for column in zip(*pairs, strict=True)]
    print(
        f"{name} ours / bench {math.exp(mean):.4f}, 95 % interval {math.exp(mean - half):.4f} .. {math.exp(mean + half):.4f} "
        f"over {len(logs)} requests; median {math.exp(statistics.median(logs)):.4f}, {low:.4f} .. {high:.4f}; "
        f"means {means_ms[0]:.2f} and {means_ms[1]:.2f} ms"
    )


def our_times(setting: Setting, requests: Sequence[PlannedRequest]) -> list[Times]:
    """A run of a few requests, one after the other."""
    samples = sorted(our_run(setting, requests).samples, key=lambda sample: sample.sent_s)
    return [Times(tpot_s=tpot_s(sample) or math.nan, ttft_s=ttft_s(sample)) for sample in samples]


def our_run(setting: Setting, plan: Sequence[PlannedRequest]) -> ArmRun:
    """A run as a comparison makes it; any failure ends the script."""
    run = run_arm(
        setting.endpoint,
        plan,
        setting.load,
        arm="specdec",
        round_index=0,
        order=0,
        alive=setting.server.check_alive,
        on_progress=lambda *_: None,
        read_counters=parse_scrape,
        running=running_requests,
        difference=difference,
    )
    failed = [sample.error for sample in run.samples if sample.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed, the first with: {failed[0]}")
    return run


@contextlib.contextmanager
def bench_requests(setting: Setting) -> Iterator[Callable[[PlannedRequest], Times]]:
    """A process that sends requests with the bench's request function."""
    command = [setting.vllm_python, "-c", BENCH_REQUESTS, f"{setting.endpoint.base_url}/v1/completions"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("pipes were asked for")
        while "ready" not in (line := stdout.readline()):
            if not line:
                raise SystemExit("the bench's request function cannot be imported with --vllm-python")

        def send(request: PlannedRequest) -> Times:
            asked = {"prompt": request.prompt.prompt, "output_len": request.max_tokens, "extra_body": GREEDY}
            stdin.write(json.dumps({"model": setting.endpoint.model, **asked}) + "\n")
            stdin.flush()
            seen = json.loads(stdout.readline())
            if error := seen.pop("error"):
                raise SystemExit(f"a request of the bench failed: {error}")
            return Times(**seen)

        yield send
        stdin.close()


def compare_acceptance(setting: Setting) -> None:
    """One whole run by each tool."""
    run = our_run(setting, setting.plan)
    before = scrape(setting.endpoint)
    result = whole_bench(setting)
    around = difference(before, scrape(setting.endpoint))
    tokens = sum(sample.completion_tokens for sample in run.samples)
    print(f"tokens of a whole run: ours {tokens}, bench {result['total_output_tokens']}")
    if setting.speculates:
        print(f"acceptance length of our run {acceptance_of(run.counters).acceptance_length}")
        print(f"  of the bench's run, as it says {result['spec_decode_acceptance_length']}")
        print(f"  of the bench's run, as we scraped {acceptance_of(around).acceptance_length}")


def whole_bench(setting: Setting) -> dict[str, Any]:
    """The result file of ``vllm bench serve`` on the plan's prompts, in the plan's order."""
    folder, endpoint, plan = setting.folder, setting.endpoint, setting.plan
    dataset = folder / "prompts.jsonl"
    dataset.write_text("".join(json.dumps({"prompt": request.prompt.prompt}) + "\n" for request in plan))
    flags = f"""
        --backend openai --endpoint /v1/completions --base-url {endpoint.base_url} --served-model-name {endpoint.model}
        --model {setting.model} --dataset-name custom --dataset-path {dataset} --custom-output-len {setting.load.max_tokens}
        --skip-chat-template --disable-shuffle --num-prompts {len(plan)} --max-concurrency 1
        --temperature 0 --top-p 1 --top-k -1 --ignore-eos --num-warmups 0 --ready-check-timeout-sec 0 --disable-tqdm
        --save-result --result-dir {folder} --result-filename bench.json
    """.split()
    done = subprocess.run(
        [setting.vllm_python, "-c", BENCH, *flags], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    path = folder / "bench.json"
    if done.returncode or not path.exists():
        raise SystemExit(f"vllm bench serve exited with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(path.read_text())
    if result["failed"]:
        raise SystemExit(f"{result['failed']} requests of vllm bench serve failed")
    return result


def scrape(endpoint: Endpoint) -> ServerCounters:
    """The server's counters now."""
    with urllib.request.urlopen(f"{endpoint.base_url}/metrics", timeout=10) as answer:  # noqa: S310 - http on loopback
        return parse_scrape(answer.read().decode())


if __name__ == "__main__":
    main()
