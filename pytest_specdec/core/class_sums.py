"""What each prompt of each class contributed to acceptance, so that the classes together give the server's counters.

The counters know no classes. Requests do: the server's own figures per request tell all of it (vLLM 0.30 and later), the
stream tells what was delivered. Both are made to add up to the counters, so that what is said of classes and what is said
of the whole never contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.contributions import MERGED_SHARE
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.tables import numbered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.samples import Comparison

WITHOUT_CLASS = "(no class)"
"""What prompts without a category are called where others have one."""


@dataclass(frozen=True)
class ClassSums:
    """Sums over all rounds; arrays of shape (prompts,). Over all classes they add up to the server's counters."""

    name: str
    requests: Floats
    drafts: Floats
    draft_tokens: Floats
    accepted: Floats
    later_tokens: Floats
    """Tokens after each request's first."""
    steps: Floats | None
    """Decode steps; None where the server merged them in the stream."""
    reached: tuple[Floats, ...]
    """By position: drafts with at least ``i + 1`` tokens accepted; empty where nothing tells."""
    drafts_between: tuple[float, float] | None
    """Fewest and most drafts of the class that agree with the counters; None where each request's are known."""
    source: str

    @property
    def prompts(self) -> int:
        """How many different prompts were sent."""
        return len(self.requests)


def class_name(category: str | None) -> str:
    """What a prompt's class is called."""
    return WITHOUT_CLASS if category is None else category


def classes_of(comparison: Comparison) -> tuple[str, ...]:
    """The classes whose requests the speculating server answered, by name; empty where no prompt has one."""
    runs = comparison.arm("specdec")
    if all(category is None for run in runs for category in run.table.column("category")):
        return ()
    return tuple(np.unique(classes_answered(comparison)).tolist())


def classes_answered(comparison: Comparison) -> NDArray[np.str_]:
    """The class of each request that the speculating server answered."""
    tables = [run.table for run in comparison.arm("specdec")]
    return np.concatenate([table.classes[table.ok] for table in tables]) if tables else np.array([], dtype=np.str_)


def class_sums(evidence: Evidence) -> tuple[ClassSums, ...]:
    """One for each class, by name; empty where no prompt has one.

    Raises:
        CannotMeasure: Nothing tells what each request contributed.
    """
    names = classes_of(evidence.comparison)
    if not names:
        return ()
    calibrated = _calibrated(evidence)
    of_request = classes_answered(evidence.comparison)
    prompts = evidence.spec.prompt
    between = _drafts_between(calibrated, of_request, names)
    found = []
    for name in names:
        mine = of_request == name
        unit = numbered(prompts[mine])
        sums = {key: _by_prompt(unit, values[mine]) for key, values in calibrated.columns.items()}
        found.append(
            ClassSums(
                name=name,
                requests=np.bincount(unit).astype(np.float64),
                drafts=sums["drafts"],
                draft_tokens=sums["draft_tokens"],
                accepted=sums["accepted"],
                later_tokens=sums["later_tokens"],
                steps=sums.get("steps"),
                reached=tuple(_by_prompt(unit, values[mine]) for values in calibrated.reached),
                drafts_between=between.get(name),
                source=calibrated.source,
            )
        )
    return tuple(found)


def _by_prompt(unit: Ints, values: Floats) -> Floats:
    return np.bincount(unit, weights=values).astype(np.float64)


@dataclass(frozen=True)
class _Calibrated:
    """Per request, adding up to the counters; arrays of shape (requests,)."""

    columns: dict[str, Floats]
    reached: tuple[Floats, ...]
    drafts_known: bool
    source: str


def _calibrated(evidence: Evidence) -> _Calibrated:
    known, counters = evidence.by_request, evidence.counters
    if known is None:
        raise CannotMeasure(
            "what each class accepted is unknown: the stream does not show decode steps (no token ids, or vLLM merged its chunks)",
            remedy="Acceptance hardly depends on load: measure classes at a lower concurrency. vLLM 0.30 and later tells it per request.",
        )
    steps_told = counters.decode_steps is not None and (
        abs(counters.decode_steps - known.steps.sum()) <= MERGED_SHARE * counters.decode_steps
    )
    later = None
    if counters.generation_tokens is not None and counters.finished_requests is not None:
        later = counters.generation_tokens - counters.finished_requests
    columns = {
        "drafts": _scaled(known.drafts, counters.drafts),
        "draft_tokens": _scaled(known.draft_tokens, counters.draft_tokens),
        "accepted": _completed(known.accepted, counters.accepted_tokens, known.steps),
        "later_tokens": _scaled(known.later_tokens, later),
    }
    if steps_told:
        columns["steps"] = _scaled(known.steps, counters.decode_steps)
    positions = counters.accepted_per_position or ()
    reached = tuple(
        _completed(values, positions[position] if position < len(positions) else None, known.steps)
        for position, values in enumerate(known.reached)
    )
    return _Calibrated(columns, reached, known.drafts_known, known.source)


def _scaled(values: Floats, total: float | None) -> Floats:
    """The same in proportion, adding up to ``total``."""
    summed = float(values.sum())
    return values if total is None or not summed else values * (total / summed)


def _completed(values: Floats, total: float | None, steps: Floats) -> Floats:
    """With what was accepted in the answers' last steps but cut off by their ends, so that they add up to ``total``.

    Each answer has one last step, which accepts on average what the answer's other steps do: what is missing is given out in
    proportion to that.
    """
    if total is None:
        return values
    missing = total - float(values.sum())
    per_step = values / np.maximum(steps, 1)
    if missing < 0 or not per_step.sum():
        return _scaled(values, total)
    completed: Floats = values + missing * per_step / per_step.sum()
    return completed


def _drafts_between(
    known: _Calibrated, of_request: np.ndarray, names: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """How many drafts each class can have made where the stream does not show which steps without success drafted.

    A step that accepted something has drafted, one that yielded a single token may have. All drafts together are counted.
    """
    if known.drafts_known or "steps" not in known.columns or not known.reached:
        return {}
    total = float(known.columns["drafts"].sum())
    least = {name: float(known.reached[0][of_request == name].sum()) for name in names}
    most = {name: float(known.columns["steps"][of_request == name].sum()) for name in names}
    return {
        name: (
            max(least[name], total - sum(most.values()) + most[name]),
            max(min(most[name], total - sum(least.values()) + least[name]), least[name]),
        )
        for name in names
    }
