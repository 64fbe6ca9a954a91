"""How each load generator is started against one server, and how its own results are read.

All of them get the same job: so many requests in a closed loop, streamed completions of fixed length. Times are seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TIMEOUT_S = 300
# ``vllm bench serve`` without the ``vllm`` script, which needs package metadata that the CPU wheel lacks.
BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


@dataclass(frozen=True)
class Job:
    """What a tool has to send."""

    url: str
    concurrency: int
    requests: int
    max_tokens: int
    tokenizer: Path
    """A Hugging Face folder: tools that count tokens themselves want one."""


@dataclass(frozen=True)
class Seen:
    """What a tool says it saw, over its requests; None where it does not say."""

    median_tpot_s: float | None
    p99_tpot_s: float | None
    median_ttft_s: float | None
    p99_ttft_s: float | None
    refusal: str | None = None
    """Why the tool itself says that its numbers must not be believed."""


@dataclass(frozen=True)
class Tool:
    """A load generator."""

    name: str
    command: Callable[[Job, Path], Sequence[str]]
    """The command for a job; a folder for its results."""
    read: Callable[[str, Path], Seen]
    """From its standard output and the folder."""


def run(tool: Tool, job: Job, *, core: int) -> tuple[Seen | None, str]:
    """Run a tool on one core; without a result, the end of what it printed."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
        command = ["taskset", "-c", str(core), *tool.command(job, folder)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return None, f"not done after {TIMEOUT_S} s"
        trouble = (done.stderr or done.stdout)[-2000:]
        if done.returncode:
            return None, trouble
        try:
            return tool.read(done.stdout, folder), ""
        except (OSError, KeyError, ValueError, IndexError, StopIteration) as error:
            return None, f"{type(error).__name__}: {error}\n{trouble}"


def ours() -> Tool:
    """This package's client."""
    script = Path(__file__).with_name("ours.py")

    def command(job: Job, _: Path) -> list[str]:
        sizes = {"concurrency": job.concurrency, "requests": job.requests, "max-tokens": job.max_tokens}
        return [sys.executable, str(script), "--url", job.url, *(f"--{name}={value}" for name, value in sizes.items())]

    return Tool("pytest-specdec", command, lambda output, _: read_ours(json.loads(output.splitlines()[-1])))


def read_ours(data: dict[str, Any]) -> Seen:
    """Percentiles of our samples; refused as the gate refuses (:mod:`pytest_specdec.core.validity`)."""
    import numpy as np

    from pytest_specdec.core.stream_validity import LAG_S

    if data["errors"]:
        raise ValueError("; ".join(data["errors"]))
    tpot, ttft = (np.array(data[name]) for name in ("tpot_s", "ttft_s"))
    late = data["p99_loop_lag_s"] > LAG_S
    return Seen(
        median_tpot_s=float(np.median(tpot)),
        p99_tpot_s=float(np.quantile(tpot, 0.99)),
        median_ttft_s=float(np.median(ttft)),
        p99_ttft_s=float(np.quantile(ttft, 0.99)),
        refusal="the load generator is the bottleneck" if late else None,
    )


def vllm_bench(python: str) -> Tool:
    """``vllm bench serve``."""

    def command(job: Job, folder: Path) -> list[str]:
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": "word " * 16}) + "\n" for _ in range(job.requests)))
        return [
            *(python, "-c", BENCH, "--backend", "openai", "--base-url", job.url, "--endpoint", "/v1/completions"),
            *("--model", "exact", "--tokenizer", str(job.tokenizer), "--dataset-name", "custom"),
            *("--dataset-path", str(prompts), "--custom-output-len", str(job.max_tokens), "--skip-chat-template"),
            *("--num-prompts", str(job.requests), "--max-concurrency", str(job.concurrency), "--ignore-eos"),
            *("--num-warmups", "0", "--disable-tqdm", "--disable-shuffle", "--percentile-metrics", "ttft,tpot"),
            *("--metric-percentiles", "50,99", "--save-result", "--result-filename", str(folder / "result.json")),
        ]

    def read(_: str, folder: Path) -> Seen:
        data = json.loads((folder / "result.json").read_text())
        if data["completed"] == 0:
            raise ValueError("no request completed")
        return Seen(*(data[f"{kind}_{metric}_ms"] / 1000 for metric in ("tpot", "ttft") for kind in ("median", "p99")))

    return Tool("vllm bench serve", command, read)


def guidellm(executable: str) -> Tool:
    """GuideLLM."""

    def command(job: Job, folder: Path) -> list[str]:
        return [
            *(executable, "run", "--backend"),
            f"kind=openai_http,target={job.url}/v1,model=exact,request_format=/v1/completions",
            *("--profile", f"kind=concurrent,streams={job.concurrency}"),
            *("--constraint", f"kind=max_requests,count={job.requests}"),
            *("--tokenizer", f"kind=huggingface_auto,model={job.tokenizer}"),
            *("--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={job.max_tokens}"),
            *("--output", f"kind=json,path={folder / 'result.json'}", "--disable-console-interactive"),
        ]

    def read(_: str, folder: Path) -> Seen:
        metrics = json.loads((folder / "result.json").read_text())["benchmarks"][0]["metrics"]

        def of(name: str) -> tuple[float, float]:
            values = metrics[name]["successful"]
            return values["median"] / 1000, values["percentiles"]["p99"] / 1000

        # Its "time per output token" counts the first token's wait; the inter-token latency is (last - first) / (n - 1).
        return Seen(*of("inter_token_latency_ms"), *of("time_to_first_token_ms"))

    return Tool("GuideLLM", command, read)


def aiperf(executable: str) -> Tool:
    """AIPerf."""

    def command(job: Job, folder: Path) -> list[str]:
        return [
            *(executable, "profile", "--model", "exact", "--url", job.url, "--endpoint-type", "completions"),
            *(
                "--streaming",
                "--tokenizer",
                _in_hub_cache(job.tokenizer, folder),
                "--concurrency",
                str(job.concurrency),
            ),
            *("--request-count", str(job.requests), "--synthetic-input-tokens-mean", "16"),
            *("--output-tokens-mean", str(job.max_tokens), "--extra-inputs", "ignore_eos:true"),
            *("--artifact-dir", str(folder), "--ui", "none", "--use-server-token-count"),
        ]

    def read(_: str, folder: Path) -> Seen:
        data = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
        itl, ttft = data["inter_token_latency"], data["time_to_first_token"]
        return Seen(*(value / 1000 for value in (itl["p50"], itl["p99"], ttft["p50"], ttft["p99"])))

    return Tool("AIPerf", command, read)


def _in_hub_cache(tokenizer: Path, folder: Path) -> str:
    """A folder made to look like a downloaded repository, for a tool that takes no folders; the repository's name."""
    name, revision = "local/tokenizer", "0" * 40
    repository = folder / "hf" / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / revision).symlink_to(tokenizer)
    return name
