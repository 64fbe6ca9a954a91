"""Write a saved session for github-action-benchmark or as OpenMetrics text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import SpecDecError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pytest_specdec.core.results import ResultDocument

_KINDS = {
    "bigger_is_better": "for github-action-benchmark's tool customBiggerIsBetter: gains, throughput, acceptance",
    "smaller_is_better": "for its tool customSmallerIsBetter: latencies, memory, start-up",
    "openmetrics": "OpenMetrics text, for Prometheus and what reads its format",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = Path(".specdec/results.json")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, default=default, help=f"default {default}")
    for kind, text in _KINDS.items():
        parser.add_argument(f"--{kind.replace('_', '-')}", metavar="PATH", type=Path, help=text)


def run(arguments: argparse.Namespace) -> str:
    """Where the files are.

    Raises:
        SpecDecError: The result cannot be read, a file cannot be written, or none was asked for.
    """
    from pytest_specdec.exchange.github_benchmark import benchmark_entries
    from pytest_specdec.exchange.openmetrics import openmetrics_text
    from pytest_specdec.reporting.result_file import read_result, replace_file

    wanted: dict[str, Path] = {kind: path for kind in _KINDS if (path := getattr(arguments, kind)) is not None}
    if not wanted:
        names = ", ".join(f"--{kind.replace('_', '-')}" for kind in _KINDS)
        raise SpecDecError("no file was asked for", remedy=f"Give a PATH to one or more of {names}.")
    document = read_result(arguments.file)
    writers: dict[str, Callable[[ResultDocument], str]] = {
        "bigger_is_better": lambda one: json.dumps(benchmark_entries(one, "higher"), indent=1) + "\n",
        "smaller_is_better": lambda one: json.dumps(benchmark_entries(one, "lower"), indent=1) + "\n",
        "openmetrics": openmetrics_text,
    }
    for kind, path in wanted.items():
        replace_file(path, writers[kind](document))
    return "\n".join(f"export: {path}" for path in wanted.values())
