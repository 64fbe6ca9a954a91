"""Load generators against a server whose schedule is known: how many chunks a second each takes, and how true its times are.

The server runs on one core and the tools, one after the other and in changing order, on another; every figure of a table comes from one
run of this script.

    python benchmarks/load_generator/compare.py capacity --concurrency 64 256
    python benchmarks/load_generator/compare.py truth --tpot-ms 10 2 --tokens-per-chunk 1 4 --concurrency 1 64 256

Peers are measured where they are named: ``--vllm-python`` (an interpreter that has vLLM and pandas), ``--guidellm`` and ``--aiperf``
(executables, each best in a virtual environment of its own).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import peers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SERVER_CORE, CLIENT_CORE = 0, 1


@dataclass(frozen=True)
class Truth:
    """What the server really sent, over the answers of one tool."""

    requests: int
    chunks_per_s: float
    """From the first request that came to the last chunk that left."""
    median_tpot_s: float
    p99_tpot_s: float
    median_ttft_s: float
    p99_ttft_s: float
    server_late_s: float
    """By how much the server missed its own schedule at worst: beyond a chunk's gap it is the bottleneck itself."""


@dataclass(frozen=True)
class Row:
    """One tool on one setting."""

    tool: str
    concurrency: int
    tpot_ms: float | None
    tokens_per_chunk: int
    seen: peers.Seen | None
    truth: Truth | None
    trouble: str


def main() -> int:
    """Measure, print, write JSON where asked."""
    options = read_options()
    tools = tools_of(options)
    rows: list[Row] = []
    paces: list[tuple[float | None, int]] = (
        [(None, 1)]
        if options.what == "capacity"
        else list(itertools.product(options.tpot_ms, options.tokens_per_chunk))
    )
    for (tpot_ms, tokens), concurrency in itertools.product(paces, options.concurrency):
        chunks = options.chunks
        with serving(chunks, tokens, tpot_ms) as url:
            for repeat in range(options.repeats):
                for tool in tools if repeat % 2 == 0 else reversed(tools):
                    job = peers.Job(
                        url=url,
                        concurrency=concurrency,
                        requests=max(options.requests_per_stream * concurrency, options.min_requests),
                        max_tokens=1 + (chunks - 1) * tokens,
                        tokenizer=options.tokenizer.resolve(),
                    )
                    rows.append(measure(tool, job, tpot_ms, tokens))
                    print(line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if options.what == "capacity":
        print_ratios(rows)
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("capacity", "truth"))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--tpot-ms", type=float, nargs="+", default=[10.0, 2.0])
    parser.add_argument("--tokens-per-chunk", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--chunks", type=int, default=256, help="token chunks of an answer")
    parser.add_argument("--requests-per-stream", type=int, default=4)
    parser.add_argument("--min-requests", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokenizer", type=Path, default=Path("models/smollm2-135m-instruct"))
    parser.add_argument("--vllm-python")
    parser.add_argument("--guidellm")
    parser.add_argument("--aiperf")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def tools_of(options: argparse.Namespace) -> list[peers.Tool]:
    """Ours, and the peers that were named."""
    tools = [peers.ours()]
    if options.vllm_python:
        tools.append(peers.vllm_bench(options.vllm_python))
    if options.guidellm:
        tools.append(peers.guidellm(options.guidellm))
    if options.aiperf:
        tools.append(peers.aiperf(options.aiperf))
    return tools


@contextlib.contextmanager
def serving(chunks: int, tokens_per_chunk: int, tpot_ms: float | None, *, text_bytes: int = 0) -> Iterator[str]:
    """The server's address; it ends with the block."""
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, str(Path(__file__).with_name("server.py"))]
    command += [f"--chunks={chunks}", f"--tokens-per-chunk={tokens_per_chunk}", f"--text-bytes={text_bytes}"]
    command += [] if tpot_ms is None else [f"--tpot-ms={tpot_ms}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline().split()[-1])}"
        finally:
            process.kill()


def ask(url: str, path: str) -> Any:
    """A question to the server, past all proxies."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + path, timeout=30) as response:
        return json.loads(response.read())


def measure(tool: peers.Tool, job: peers.Job, tpot_ms: float | None, tokens_per_chunk: int) -> Row:
    """Run a tool and ask the server what it really did."""
    ask(job.url, "/reset")
    seen, trouble = peers.run(tool, job, core=CLIENT_CORE)
    answers = ask(job.url, "/truth")[-job.requests :]  # without the requests of a tool's own check before it starts
    truth = truth_of(answers, tokens_per_chunk) if len(answers) == job.requests else None
    return Row(tool.name, job.concurrency, tpot_ms, tokens_per_chunk, seen, truth, trouble)


def truth_of(answers: Sequence[dict[str, float]], tokens_per_chunk: int) -> Truth:
    """Percentiles over what left the server."""
    received, first, last, sent = (
        np.array([answer[name] for answer in answers]) for name in ("received", "first", "last", "sent")
    )
    tpot = (last - first) / ((sent - 1) * tokens_per_chunk)
    ttft = first - received
    return Truth(
        requests=len(answers),
        chunks_per_s=float(sent.sum() / (last.max() - received.min())),
        median_tpot_s=float(np.median(tpot)),
        p99_tpot_s=float(np.quantile(tpot, 0.99)),
        median_ttft_s=float(np.median(ttft)),
        p99_ttft_s=float(np.quantile(ttft, 0.99)),
        server_late_s=max(answer["late_s"] for answer in answers),
    )


def line(row: Row) -> str:
    """A row for people: what the tool took, and by how many percent its times are off."""
    setting = f"{row.tool:<18} {row.concurrency:>4} streams"
    if row.tpot_ms is not None:
        setting += f"  TPOT {row.tpot_ms:g} ms, {row.tokens_per_chunk} tokens a chunk"
    if row.truth is None:
        return f"{setting}  not all requests arrived: {row.trouble[-300:]}"
    setting += f"  {row.truth.chunks_per_s:>8.0f} chunks/s"
    if row.seen is None:
        return f"{setting}  no result: {row.trouble[-300:]}"
    if row.tpot_ms is None:
        return setting
    errors = ", ".join(f"{name} {error}" for name, error in errors_of(row.seen, row.truth).items())
    late = f"  (server itself late by up to {row.truth.server_late_s * 1000:.1f} ms)"
    return f"{setting}  {errors}{late}" + (f"  REFUSED: {row.seen.refusal}" if row.seen.refusal else "")


def errors_of(seen: peers.Seen, truth: Truth) -> dict[str, str]:
    """Relative errors by figure."""
    names = ("median_tpot_s", "p99_tpot_s", "median_ttft_s", "p99_ttft_s")
    pairs = {name.removesuffix("_s"): (getattr(seen, name), getattr(truth, name)) for name in names}
    return {
        name: "-" if value is None else f"{100 * (value / true - 1):+.2f} %" for name, (value, true) in pairs.items()
    }


def print_ratios(rows: Sequence[Row]) -> None:
    """Capacity against the best peer, per number of streams: medians over repeats."""
    for concurrency in sorted({row.concurrency for row in rows}):
        by_tool: dict[str, list[float]] = {}
        for row in rows:
            if row.concurrency == concurrency and row.truth is not None:
                by_tool.setdefault(row.tool, []).append(row.truth.chunks_per_s)
        medians = {tool: statistics.median(values) for tool, values in by_tool.items()}
        own = medians.pop("pytest-specdec", None)
        if own is not None:
            for tool, value in medians.items():
                print(f"{concurrency} streams: {own / value:.2f} times the chunks per second of {tool}")


if __name__ == "__main__":
    sys.exit(main())
