"""vLLM's ``/metrics`` text: which families mean what, and how two scrapes are subtracted.

Values are looked up by exact sample name, so that ``_created`` time stamps and families that merely start alike
(``vllm:prompt_tokens_by_source_total``) are never counted. Everything is summed over ``engine``: vLLM has one series
per data-parallel engine, and neither the first engine nor a mean over engines is the server's figure.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, TypeVar

from pytest_specdec.core.errors import ScrapeError
from pytest_specdec.core.metric_names import COUNTS, PER_POSITION, PREFIX, SECONDS
from pytest_specdec.core.samples import ServerCounters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.samples import Sample

_Number = TypeVar("_Number", int, float)

_SPECULATION = ("drafts", "draft_tokens", "accepted_tokens")
_UNFINISHED = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_PROCESS_START = "process_start_time_seconds"


def parse_scrape(text: str) -> ServerCounters:
    """Read the counters of one scrape, summed over engines.

    Args:
        text: The body of ``GET /metrics``, in Prometheus' text format.

    Returns:
        Totals since the server started. The speculation fields are None on a server without speculation.

    Raises:
        ScrapeError: The text is not Prometheus' format, holds no ``vllm:`` line, mixes models, repeats a series, or has
            a value that no counter can have.
    """
    samples = _vllm_samples(text)
    _refuse_mixtures(samples)
    counts = {field: _count(samples, name) for field, name in COUNTS.items()}
    missing = [COUNTS[field] for field in _SPECULATION if counts[field] is None]
    if missing and len(missing) < len(_SPECULATION):
        raise ScrapeError(
            f"only a part of the speculation counters is there: {', '.join(missing)} is missing",
            remedy="Save the whole answer of GET /metrics; this one looks cut off or filtered.",
        )
    return ServerCounters(
        **counts,
        accepted_per_position=_per_position(samples),
        tpot_sum_s=_seconds(samples, SECONDS["tpot_sum_s"]),
        ttft_sum_s=_seconds(samples, SECONDS["ttft_sum_s"]),
    )


def running_requests(text: str) -> int:
    """Requests that the server has not finished: running plus waiting, summed over engines.

    Raises:
        ScrapeError: As :func:`parse_scrape`, or the gauge is missing.
    """
    samples = _vllm_samples(text)
    running, waiting = (_count(samples, name) for name in _UNFINISHED)
    if running is None:
        raise ScrapeError(f"{_UNFINISHED[0]} is missing", remedy="This needs the /metrics of vLLM 0.20 or later.")
    return running + (waiting or 0)


def process_start_unix_s(text: str) -> float | None:
    """When the server process started, or None where it does not say (several API servers).

    Two scrapes of one process agree in it exactly, so it shows a restart, or a second replica behind one address, that
    counters which have grown past their old values hide.
    """
    values = [sample.value for sample in _samples(text) if sample.name == _PROCESS_START]
    return float(values[0]) if len(values) == 1 else None


def difference(before: ServerCounters, after: ServerCounters) -> ServerCounters:
    """What happened between two scrapes of one server.

    vLLM creates every series at start, with zeros. So speculation counters in one scrape only mean two different
    servers, not a beginning. Another field that one side lacks is unknown: None.

    Raises:
        ScrapeError: A counter went down (the server restarted in between), or only one side has speculation counters.
    """
    for field in (*_SPECULATION, "accepted_per_position"):
        first, second = getattr(before, field), getattr(after, field)
        if (first is None) != (second is None):
            side = "second" if first is None else "first"
            raise ScrapeError(
                f"only the {side} scrape has speculation counters ({field})",
                remedy="Take both scrapes from the same server, the first one before the traffic and the second after it.",
            )
    deltas = {
        field: _grown(field, getattr(before, field), getattr(after, field))
        for field in (*COUNTS, *SECONDS)
        if getattr(before, field) is not None and getattr(after, field) is not None
    }
    return dataclasses.replace(
        ServerCounters(
            accepted_per_position=_positions_grown(before.accepted_per_position, after.accepted_per_position)
        ),
        **deltas,
    )


def _samples(text: str) -> list[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (ValueError, IndexError, KeyError, TypeError) as error:  # the parser has no error class of its own
        raise ScrapeError(
            f"not Prometheus' text format: {str(error) or type(error).__name__}",
            remedy="Save the whole answer of GET /metrics.",
        ) from None


def _vllm_samples(text: str) -> list[Sample]:
    samples = [sample for sample in _samples(text) if sample.name.startswith(PREFIX)]
    if not samples:
        raise ScrapeError(
            "no line starts with 'vllm:', so these are not vLLM's counters",
            remedy="If the server is vLLM, start it without --disable-log-stats, which removes them.",
        )
    return samples


def _refuse_mixtures(samples: Iterable[Sample]) -> None:
    known = {*COUNTS.values(), *SECONDS.values(), PER_POSITION}
    models: set[str] = set()
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for sample in samples:
        if sample.name not in known:
            continue
        models.add(sample.labels.get("model_name", ""))
        key = (sample.name, tuple(sorted(sample.labels.items())))
        if key in seen:
            raise ScrapeError(
                f"{sample.name} is there twice with the same labels", remedy="Keep each scrape in a file of its own."
            )
        seen.add(key)
    if len(models) > 1:
        raise ScrapeError(
            f"counters of {len(models)} models in one scrape: {', '.join(sorted(models))}",
            remedy="Scrape one vLLM server directly, not a gateway or a federated Prometheus.",
        )


def _count(samples: Iterable[Sample], name: str) -> int | None:
    values = [_counter_value(sample, whole=True) for sample in samples if sample.name == name]
    return int(sum(values)) if values else None


def _seconds(samples: Iterable[Sample], name: str) -> float | None:
    values = [_counter_value(sample, whole=False) for sample in samples if sample.name == name]
    return math.fsum(values) if values else None


def _counter_value(sample: Sample, *, whole: bool) -> float:
    value = float(sample.value)
    if not math.isfinite(value) or value < 0 or (whole and value != int(value)):
        raise ScrapeError(f"{sample.name} is {sample.value}, which no counter can be")
    return value


def _per_position(samples: Iterable[Sample]) -> tuple[int, ...] | None:
    totals: dict[int, int] = {}
    for sample in samples:
        if sample.name != PER_POSITION:
            continue
        label = sample.labels.get("position", "")
        if not (label.isascii() and label.isdigit()):
            raise ScrapeError(f"{PER_POSITION} has the position label {label!r}, which is not a number")
        totals[int(label)] = totals.get(int(label), 0) + int(_counter_value(sample, whole=True))
    if not totals:
        return None
    if set(totals) != set(range(len(totals))):
        raise ScrapeError(
            f"{PER_POSITION} has the positions {sorted(totals)}, which do not run from 0 without a gap",
            remedy="Save the whole answer of GET /metrics; this one looks cut off or filtered.",
        )
    return tuple(totals[position] for position in range(len(totals)))


def _positions_grown(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if before is None or after is None:
        return None
    if len(before) != len(after):
        raise ScrapeError(
            f"the scrapes have {len(before)} and {len(after)} draft positions",
            remedy="They come from servers with different num_speculative_tokens; take both from the same one.",
        )
    return tuple(
        _grown(f"accepted_per_position[{position}]", first, second)
        for position, (first, second) in enumerate(zip(before, after, strict=True))
    )


def _grown(field: str, before: _Number, after: _Number) -> _Number:
    if after < before:
        raise ScrapeError(
            f"{field} went down from {before:g} to {after:g}: the server restarted between the scrapes, or they are swapped",
            remedy="Measure again, with both scrapes from one run of the server and the earlier one first.",
        )
    return after - before
