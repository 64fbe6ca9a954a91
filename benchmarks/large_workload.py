"""Peak memory and time of sampling a large file of conversations.

Writes a ShareGPT file (one JSON array) of the size asked for, samples it in a process of its own, reports that process's peak resident
memory, and deletes the file.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "is",
    "it",
    "for",
    "on",
    "with",
    "as",
    "at",
    "by",
    "from",
    "that",
    "this",
    "one",
    "two",
    "red",
    "blue",
    "river",
    "stone",
    "light",
    "code",
    "table",
    "ü",
    "世界",
]


def main() -> int:
    """Write, sample, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the file (default 1000)")
    parser.add_argument(
        "--layout", choices=("line", "lines", "jsonl"), default="line", help="array in one line, over lines, JSON lines"
    )
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument(
        "--directory", type=Path, help="where the file is written (default: the system's temporary folder)"
    )
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(sampled(options.read, options.sample)))
        return 0
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        path = Path(folder, "large.json")
        write(path, options.megabytes * 1_000_000, options.layout)
        size_mb = path.stat().st_size / 1e6
        command = [sys.executable, __file__, "--read", str(path), "--sample", str(options.sample)]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"file              {size_mb:.0f} MB, layout {options.layout}")
    print(f"prompts sampled   {figures['prompts']}: {figures['note']}")
    print(f"peak memory       {figures['peak_mb']:.0f} MB resident, {figures['before_mb']:.0f} MB before reading")
    print(f"time              {figures['wall_s']:.1f} s ({size_mb / figures['wall_s']:.0f} MB/s)")
    return 0


def write(path: Path, size: int, layout: str) -> None:
    """Conversations of a few turns, about 5 kB each, until the file has its size."""
    chance = random.Random(0)  # noqa: S311 - text to fill a file
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(20, 600))) for _ in range(500)]
    indent = 2 if layout == "lines" else None
    written, number = 0, 0
    with path.open("w", encoding="utf-8") as file:
        written += file.write("" if layout == "jsonl" else "[")
        while written < size:
            turns = [
                {"from": who, "value": f"{number} {chance.choice(texts)}"}
                for _ in range(chance.randint(1, 3))
                for who in ("human", "gpt")
            ]
            between = "" if number == 0 else "\n" if layout == "jsonl" else ", "
            record = {"id": f"c{number}", "conversations": turns}
            written += file.write(between + json.dumps(record, indent=indent, ensure_ascii=number % 2 == 0))
            number += 1
        file.write("\n" if layout == "jsonl" else "]")


def sampled(path: Path, sample: int) -> dict[str, object]:
    """What reading takes, in this process."""
    from pytest_specdec.core.workload_options import WorkloadOptions
    from pytest_specdec.load.workload import read_workload

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_s = time.perf_counter()
    workload = read_workload(path, name="large", options=WorkloadOptions(sample=sample))
    return {
        "prompts": len(workload.prompts),
        "note": next(note for note in workload.notes if "drawn" in note),
        "wall_s": time.perf_counter() - started_s,
        "before_mb": before_kib * 1024 / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


if __name__ == "__main__":
    sys.exit(main())
