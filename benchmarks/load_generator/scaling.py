"""Does a request cost our client the same, however many there are? CPU time and memory per request at 1,000, 10,000 and 100,000 of them.

The server of this folder streams short answers as fast as they are read, on one core, and our client reads them on the other, in a new process for each
row. The last rows send the same requests with long texts: what is streamed must not pile up in memory.

    python benchmarks/load_generator/scaling.py
    python benchmarks/load_generator/scaling.py --requests 1000 10000 --chunks 32
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import compare


def main() -> int:
    """Measure and print; 1 where a request costs more among many than among few, or streamed text stays in memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--chunks", type=int, default=16, help="token chunks of an answer")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--text-bytes", type=int, default=4_000, help="text of a chunk in the last rows")
    parser.add_argument("--tolerance", type=float, default=1.25, help="how many times the cheapest row's cost is flat")
    options = parser.parse_args()

    print(
        f"{'requests':>9}{'text of a chunk':>17}{'window':>14}{'answers read':>16}{'peak memory':>13}{'a request':>12}"
    )
    rows = [measured(requests, options, text_bytes=0) for requests in options.requests]
    long = [measured(requests, options, text_bytes=options.text_bytes) for requests in options.requests[:2]]
    costs = [row["total_cpu_s"] / requests for row, requests in zip(rows, options.requests, strict=True)]
    flat = max(costs) <= options.tolerance * costs[0]
    grown_mib = long[-1]["peak_rss_mib"] - rows[len(long) - 1]["peak_rss_mib"]
    streamed_mib = options.requests[len(long) - 1] * options.chunks * options.text_bytes / 2**20
    print(f"cost of a request among many / among few: {max(costs) / costs[0]:.2f}")
    print(f"memory for {streamed_mib:.0f} MiB of streamed text: {grown_mib:.0f} MiB")
    return 0 if flat else 1


def measured(requests: int, options: argparse.Namespace, *, text_bytes: int) -> dict[str, float]:
    """One window of so many requests."""
    with compare.serving(options.chunks, 1, None, text_bytes=text_bytes) as url:
        words = {"url": url, "concurrency": options.concurrency, "requests": requests, "max-tokens": options.chunks}
        command = ["taskset", "-c", str(compare.CLIENT_CORE), sys.executable, str(Path(__file__).with_name("ours.py"))]
        command += [f"--{name}={value}" for name, value in words.items()]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    reading_s = figures["total_cpu_s"] - figures["window_cpu_s"]
    print(
        f"{requests:>9}{text_bytes:>15} B{1e6 * figures['window_cpu_s'] / requests:>11.0f} us{1e6 * reading_s / requests:>13.0f} us"
        f"{figures['peak_rss_mib']:>9.0f} MiB{1024 * (figures['peak_rss_mib'] - figures['start_rss_mib']) / requests:>8.1f} KiB",
        flush=True,
    )
    return figures


if __name__ == "__main__":
    sys.exit(main())
