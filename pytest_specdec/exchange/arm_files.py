"""Which tool wrote a file, and the runs that it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.exchange.aiperf import is_aiperf_record, read_aiperf, refuse_aiperf_summary
from pytest_specdec.exchange.guidellm import is_guidellm, read_guidellm
from pytest_specdec.exchange.vllm_bench import is_vllm_bench, read_vllm_bench

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_specdec.exchange.foreign_run import ForeignRun

_KNOWN = (
    "Known are the JSON and JSON lines of vllm bench serve (--save-result or --append-result, with --save-detailed), GuideLLM's "
    "benchmarks.json and AIPerf's profile_export.jsonl."
)


def read_arm(paths: Iterable[Path]) -> tuple[ForeignRun, ...]:
    """All runs of one arm, in the order of files and lines.

    Raises:
        ResultFileError: A file cannot be read, or lacks what a run needs.
    """
    return tuple(run for path in paths for run in _runs(path))


def _runs(path: Path) -> list[ForeignRun]:
    where, objects = str(path), _objects(path)
    if all(map(is_aiperf_record, objects)):
        return [read_aiperf(objects, where)]
    if all(map(is_guidellm, objects)):
        return [read_guidellm(data, where) for data in objects]
    if all(map(is_vllm_bench, objects)):
        several = len(objects) > 1
        return [
            read_vllm_bench(data, f"{where}, line {number}" if several else where)
            for number, data in enumerate(objects, start=1)
        ]
    refuse_aiperf_summary(objects[0], where)
    raise ResultFileError("is the result of no load generator that is known", where=where, remedy=_KNOWN)


def _objects(path: Path) -> list[Any]:
    """One JSON document, or one a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ResultFileError(f"cannot be read: {reason or error}", where=str(path), remedy=_KNOWN) from None
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    objects = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                objects.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ResultFileError(f"line {number} is not JSON: {error}", where=str(path), remedy=_KNOWN) from None
    if not objects:
        raise ResultFileError("is empty", where=str(path), remedy=_KNOWN)
    return objects
