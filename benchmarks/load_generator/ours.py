"""Our client against a running server: one window, as a gate would run it, and what it saw as one line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.metrics import tpot_s, ttft_s
from pytest_specdec.load.answer import read_answer
from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.client import Endpoint, connect
from pytest_specdec.load.health import client_health
from pytest_specdec.load.window import Window, run_window
from pytest_specdec.load.workload import Prompt


def main() -> None:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--max-tokens", type=int, required=True)
    options = parser.parse_args()
    load = LoadSpec(
        concurrency=options.concurrency, num_requests=options.requests, max_tokens=options.max_tokens, ignore_eos=True
    )
    prompt = Prompt(index=0, prompt="word " * 16)
    plan = tuple(
        PlannedRequest(index=number, prompt=prompt, max_tokens=options.max_tokens, seed=number, due_s=None)
        for number in range(options.requests)
    )

    async def window() -> Window:
        async with connect(Endpoint(options.url, "exact")) as client:
            return await run_window(client, plan, load, on_progress=lambda *_: None, stall_timeout_s=60)

    start_rss_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu_s = time.process_time()
    seen = asyncio.run(window())
    window_cpu_s = time.process_time() - cpu_s
    samples = [read_answer(transfer, window_start=seen.started) for transfer in seen.transfers]
    print(
        json.dumps(
            {
                "errors": sorted({sample.error for sample in samples if sample.error}),
                "chunks": sum(len(sample.token_times_s) for sample in samples),
                "ttft_s": [ttft_s(sample) for sample in samples],
                "tpot_s": [tpot_s(sample) for sample in samples],
                "window_cpu_s": window_cpu_s,
                "total_cpu_s": time.process_time() - cpu_s,
                "p99_loop_lag_s": client_health(seen.loop, samples).p99_loop_lag_s,
                "max_loop_lag_s": client_health(seen.loop, samples).max_loop_lag_s,
                "start_rss_mib": start_rss_kib / 1024,
                "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
