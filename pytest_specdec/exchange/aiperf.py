"""Results of AIPerf: the records of its ``profile_export.jsonl``, one request a line.

Its names against ours: every value comes with its unit; ``inter_token_latency`` is our TPOT, ``inter_chunk_latency`` our chunk gaps,
``output_sequence_length`` the tokens, reasoning included; acceptance rates are percent, and counts are read instead.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.exchange.foreign_run import Fact, ForeignRun, checked, failed_sample, sample
from pytest_specdec.exchange.server_stats import WHERE_FROM, RequestStats, counters_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.samples import RequestSample

TOOL = "AIPerf"
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_GIVE_RECORDS = "Give the profile_export.jsonl that AIPerf writes beside it with --export-level records."


class _Part(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class _Value(_Part):
    value: Any
    """A number, or a list of them; what other metrics have is not read."""
    unit: str = ""


class _Metadata(_Part):
    session_num: int
    turn_index: int | None = None
    request_start_ns: int
    request_end_ns: int
    benchmark_phase: str = "profiling"
    was_cancelled: bool = False


class _Record(_Part):
    metadata: _Metadata
    metrics: dict[str, _Value]
    spec_decode_acceptance: RequestStats | None = None
    error: dict[str, Any] | None = None


def is_aiperf_record(data: Any) -> bool:
    """Whether an object looks like one of its records."""
    return isinstance(data, dict) and isinstance(data.get("metadata"), dict) and isinstance(data.get("metrics"), dict)


def refuse_aiperf_summary(data: Any, where: str) -> None:
    """Its ``profile_export_aiperf.json`` holds percentiles, no requests.

    Raises:
        ResultFileError: The object is one.
    """
    latency = data.get("request_latency") if isinstance(data, dict) else None
    if isinstance(latency, dict) and "unit" in latency:
        raise ResultFileError(
            "is AIPerf's summary: it holds no single requests, and without them nothing has an interval",
            where=where,
            remedy=_GIVE_RECORDS,
        )


def read_aiperf(lines: Sequence[Any], where: str) -> ForeignRun:
    """The one run that the records make.

    Raises:
        ResultFileError: A record lacks what a streamed request has.
    """
    records = [checked(_Record, data, f"{where}, line {number}") for number, data in enumerate(lines, start=1)]
    records = [one for one in records if one.metadata.benchmark_phase == "profiling"]
    if not records:
        raise ResultFileError("holds no request of the profiling phase", where=where, remedy=_GIVE_RECORDS)
    # They are kept in the order in which they ended; the same session is the same request in both arms.
    records.sort(key=lambda one: (one.metadata.session_num, one.metadata.turn_index or 0))
    start_ns = min(one.metadata.request_start_ns for one in records)
    good = [one for one in records if one.error is None and not one.metadata.was_cancelled]
    counters = counters_of([one.spec_decode_acceptance for one in good])
    missing: dict[Fact, str] = {"load": "AIPerf's records do not tell it"}
    if counters.drafts is None:
        missing["acceptance"] = f"AIPerf has it only from {WHERE_FROM}"
    if counters.accepted_per_position is None:
        missing["positions"] = missing.get("acceptance", "the server told no histogram")
    if not all("inter_chunk_latency" in one.metrics or _count(one, "output_sequence_length") == 1 for one in good):
        missing["chunk times"] = "these records have no inter_chunk_latency"
    return ForeignRun(
        tool=TOOL,
        where=where,
        model="",
        samples=tuple(_sample(index, one, start_ns, where) for index, one in enumerate(records)),
        counters=counters,
        missing=missing,
        counts_drafts=False,
        concurrency=None,
        request_rate=None,
        started_unix_s=start_ns / 1e9,
        duration_s=(max(one.metadata.request_end_ns for one in records) - start_ns) / 1e9,
    )


def _count(record: _Record, name: str) -> int | None:
    found = record.metrics.get(name)
    return int(found.value) if found is not None and isinstance(found.value, int | float) else None


def _seconds(record: _Record, name: str, place: str) -> list[float]:
    found = record.metrics.get(name)
    if found is None or found.unit not in _SECONDS:
        what = "is missing" if found is None else f"is in {found.unit!r}, which is no unit of time"
        raise ResultFileError(
            f"{name} {what}",
            where=place,
            remedy="TTFT and TPOT need a streamed answer: run aiperf profile with --streaming.",
        )
    values = found.value if isinstance(found.value, list) else [found.value]
    if not all(isinstance(value, int | float) for value in values):
        raise ResultFileError(f"{name} is no number", where=place, remedy="Is the file whole and unedited?")
    return [_SECONDS[found.unit] * value for value in values]


def _sample(index: int, record: _Record, start_ns: int, where: str) -> RequestSample:
    place = f"{where}, request {index}"
    sent_s = (record.metadata.request_start_ns - start_ns) / 1e9
    if record.error is not None or record.metadata.was_cancelled:
        error = record.error or {"message": "cancelled"}
        return failed_sample(index, sent_s=sent_s, error=str(error.get("message") or error.get("type") or error))
    tokens = _count(record, "output_sequence_length")
    if not tokens:
        raise ResultFileError(
            "output_sequence_length is missing", where=place, remedy="AIPerf counts tokens for models that it knows."
        )
    (ttft_s,), (latency_s,) = _seconds(record, "time_to_first_token", place), _seconds(record, "request_latency", place)
    first_s, last_s = sent_s + ttft_s, sent_s + latency_s
    if "inter_chunk_latency" in record.metrics:
        times_s = tuple(itertools.accumulate(_seconds(record, "inter_chunk_latency", place), initial=first_s))
    else:
        times_s = (first_s, last_s) if last_s > first_s else (first_s,)
    return sample(
        index,
        sent_s=sent_s,
        token_times_s=times_s,
        prompt_tokens=_count(record, "input_sequence_length"),
        completion_tokens=tokens,
        spec=record.spec_decode_acceptance.stats() if record.spec_decode_acceptance else None,
    )
