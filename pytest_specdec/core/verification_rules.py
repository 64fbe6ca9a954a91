"""Rules about how many drafts are verified, and how: the schedule by batch size, synthetic acceptance, lossy verification."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.config_rules import shown
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.spec_fields import FIELDS
from pytest_specdec.core.spec_methods import LOSSY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.spec_given import Given

_K = "num_speculative_tokens"
_SCHEDULE = "num_speculative_tokens_per_batch_size"


def verification_problems(given: Given) -> Iterator[Problem]:
    """What these rules find."""
    for rule in (_schedule, _synthetic, _fly, _label):
        yield from rule(given)


def _schedule(given: Given) -> Iterator[Problem]:
    schedule = given.values.get(_SCHEDULE)
    if schedule is None:
        return
    example = "Such as [[1, 8, 4], [9, 64, 2], [65, 256, 0]]: first batch size, last batch size, K."
    if not isinstance(schedule, list) or not schedule:
        yield Problem(given.at(_SCHEDULE), f"must be a list of [start, end, K], not {shown(schedule)}", example)
        return
    for index, entry in enumerate(schedule):
        fault = _entry_fault(entry)
        if fault:
            yield Problem(given.at(_SCHEDULE, index), fault, example)
            return
    yield from _schedule_order(given, sorted((int(a), int(b), int(k)) for a, b, k in schedule))
    if (given.flag("data-parallel-size") or 1) > 1:
        what = "is silently off with data parallelism: every batch gets the K of num_speculative_tokens"
        yield Problem(given.at(_SCHEDULE), what, "Remove it, or data_parallel_size.", "warning")


def _entry_fault(entry: Any) -> str:
    if not isinstance(entry, list) or len(entry) != 3:  # noqa: PLR2004 - start, end, K
        return f"must be [start, end, K], not {shown(entry)}"
    if any(not isinstance(number, int) or isinstance(number, bool) for number in entry):
        return "must hold whole numbers"
    start, end, k = entry
    if start < 1:
        return f"starts at {start}: batch sizes count from 1"
    if start > end:
        return f"starts at {start} and ends at {end}"
    return f"has K {k}, which must be at least 0" if k < 0 else ""


def _schedule_order(given: Given, schedule: list[tuple[int, int, int]]) -> Iterator[Problem]:
    keys = given.at(_SCHEDULE)
    if schedule[0][0] != 1:
        yield Problem(keys, f"starts at batch size {schedule[0][0]}, and the first range must start at 1")
    for (start, end, k), (next_start, next_end, _) in pairwise(schedule):
        if next_start <= end:
            yield Problem(keys, f"has ranges that overlap: {start}..{end} and {next_start}..{next_end}")
        elif next_start > end + 1:
            what = f"has a gap: batch sizes {end + 1}..{next_start - 1} keep the K before it, {k}"
            yield Problem(keys, what, "Make the ranges contiguous.", "warning")
    most = given.values.get(_K)
    highest = max(k for _, _, k in schedule)
    if most is not None and highest > most:
        yield Problem(keys, f"has K {highest}, cut to num_speculative_tokens, {most}", "Raise that.", "warning")


def _synthetic(given: Given) -> Iterator[Problem]:
    names = ("synthetic_acceptance_rates", "synthetic_acceptance_length")
    there = [name for name in names if name in given.written and given.values.get(name) is not None]
    method = given.values.get("rejection_sample_method")
    if method != "synthetic":
        for name in there:
            yield Problem(
                given.at(name),
                "is for synthetic acceptance only, and vLLM refuses it without",
                'Add "rejection_sample_method": "synthetic", or remove it.',
            )
        return
    tried = [name for name in names if name in given.written]
    if "synthetic_acceptance_rate" not in given.written and (
        len(there) > 1 or (not there and len(tried) == len(there))
    ):
        what = f"synthetic needs exactly one of {', '.join(names)}, and {'both are' if there else 'none is'} given"
        yield Problem(given.at("rejection_sample_method"), what, 'Such as "synthetic_acceptance_length": 2.5.')
        return
    k = given.values.get(_K)
    length = given.values.get(names[1])
    if length is not None and k is not None and length > k + 1:
        what = f"is {length:g}, and at most K + 1 = {k + 1} tokens come out of a step"
        yield Problem(given.at(names[1]), what)
    yield from _rates(given, given.values.get(names[0]), k)


def _rates(given: Given, rates: list[float] | None, k: int | None) -> Iterator[Problem]:
    if rates is None:
        return
    keys = given.at("synthetic_acceptance_rates")
    if k is not None and len(rates) != k:
        yield Problem(keys, f"has {len(rates)} entries, and K is {k}: one for each draft position is needed")
    elif not all(0 <= rate <= 1 for rate in rates):
        yield Problem(keys, "must hold fractions from 0 to 1")
    elif any(later > earlier for earlier, later in pairwise(rates)):
        what = "rises from one position to the next: entries are joint, so none may exceed the one before it"
        yield Problem(keys, what)


def _fly(given: Given) -> Iterator[Problem]:
    window, k = given.values.get("fly_window_size"), given.values.get(_K)
    fly = given.values.get("rejection_sample_method") == "fly"
    if not fly:
        for name in ("fly_window_size", "fly_entropy_threshold", "fly_entropy_top_k"):
            if name in given.values and given.values[name] != FIELDS[name].default:
                what = "is looked at with rejection_sample_method fly only"
                yield Problem(given.at(name), what, "Remove it.", "warning")
    elif k is not None and k < 2:  # noqa: PLR2004 - a window needs a second token
        yield Problem(given.at(_K), "is 1, and fly needs at least 2")
    elif window is not None and k is not None and window >= k:
        yield Problem(given.at("fly_window_size"), f"is {window}, and must be smaller than {_K}, {k}")


def _label(given: Given) -> Iterator[Problem]:
    method = given.values.get("rejection_sample_method")
    keys = given.at("rejection_sample_method")
    if method == "synthetic":
        what = "synthetic: acceptance is made up; such a run never satisfies an acceptance or output objective"
        yield Problem(keys, what, "It is good for timing only.", "warning")
    elif method in LOSSY:
        what = f"{method} is lossy: it may accept tokens that the target would not have said"
        yield Problem(keys, what, "Judge the outputs as well.", "warning")
