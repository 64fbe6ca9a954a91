"""Drawing some prompts out of many while they pass by: seeded, without replacement, by category where asked."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.load.prompt_reader import Prompt

MAX_CATEGORIES = 200
"""A column with more values is no category: an id, a date. Also bounds what is held in memory."""
_EVERYTHING = None


class Sampler:
    """Holds at most ``size`` prompts of each category, whatever number passes by.

    Every prompt draws one number from the seeded generator as it passes; those with the smallest numbers stay. So the sample depends on
    the seed and on the order of the file, and nothing else.
    """

    def __init__(self, size: int, *, seed: int, by_category: bool, shares: Mapping[str, float] | None) -> None:
        self._size = size
        self._random = random.Random(seed)  # noqa: S311 - a sample is no secret
        self._stratified = by_category or shares is not None
        self._shares = shares
        self._kept: dict[str | None, list[tuple[float, int, Prompt]]] = {}
        self._seen: Counter[str | None] = Counter()
        self._taken: dict[str | None, int] = {}

    def add(self, prompt: Prompt) -> None:
        """Takes or leaves the next prompt, whose index is its place in the file.

        Raises:
            WorkloadError: There are too many categories.
        """
        number = self._random.random()
        category = prompt.category if self._stratified else _EVERYTHING
        self._seen[category] += 1
        if len(self._seen) > MAX_CATEGORIES:
            raise WorkloadError(
                f"more than {MAX_CATEGORIES} categories, such as {', '.join(repr(name) for name in [*self._seen][:3])}",
                remedy="Is the right column mapped to `category`?",
            )
        if self._shares is not None and category not in self._shares:
            return
        kept = self._kept.setdefault(category, [])
        item = (-number, -prompt.index, prompt)
        if len(kept) < self._size:
            heapq.heappush(kept, item)
        elif item > kept[0]:
            heapq.heapreplace(kept, item)

    def sample(self) -> list[Prompt]:
        """The prompts drawn, in the order of the file.

        Raises:
            WorkloadError: A stated share cannot be met, because there are too few prompts of that category.
        """
        self._taken = self._quotas()
        drawn = [
            item[2]
            for category, count in self._taken.items()
            for item in sorted(self._kept.get(category, []), reverse=True)[:count]
        ]
        return sorted(drawn, key=lambda prompt: prompt.index)

    def weights(self) -> dict[str, float] | None:
        """Share of each category in the traffic: as stated, else as the data have it; None where there is none."""
        if self._shares is not None:
            return dict(self._shares)
        total = self._seen.total()
        if not self._stratified or None in self._seen or not total:
            return None
        return {str(category): count / total for category, count in self._seen.items()}

    def notes(self) -> tuple[str, ...]:
        """What was drawn from what, after :meth:`sample`."""
        total, taken = self._seen.total(), sum(self._taken.values())
        if taken == total:
            return (f"all {total} prompts are used; the sample asked for {self._size}",)
        notes = [f"{taken} of {total} prompts drawn"]
        if self._stratified:
            parts = [f"{_name(category)} {count} of {self._seen[category]}" for category, count in self._taken.items()]
            notes[0] += f": {', '.join(parts)}"
        if self._shares is not None and (others := [name for name in self._seen if name not in self._shares]):
            count = sum(self._seen[name] for name in others)
            notes.append(f"{count} prompts of categories without a share are left out: {', '.join(map(_name, others))}")
        return tuple(notes)

    def _quotas(self) -> dict[str | None, int]:
        if self._shares is None:
            return largest_remainder(min(self._size, self._seen.total()), self._seen)
        names = [name for name in self._seen if name is not None]
        for name in self._shares:
            if name not in self._seen:
                meant = did_you_mean(name, names)
                raise WorkloadError(
                    f"`shares` names the category {name!r}, and no prompt has it"
                    + (f"; did you mean {meant!r}?" if meant else ""),
                    remedy=f"There are: {', '.join(sorted(names)) or 'no categories; `classify: true` gives prompts one'}.",
                )
        quotas = largest_remainder(self._size, self._shares)
        short = {name: count for name, count in quotas.items() if self._seen[name] < count}
        if short:
            fits = int(min(self._seen[name] / self._shares[name] for name in self._shares))
            words = ", ".join(f"{count} of {name!r} ({self._seen[name]} there)" for name, count in short.items())
            raise WorkloadError(
                f"the shares ask for more prompts than there are: {words}",
                remedy=f"With these shares the file is good for `sample: {max(fits, 1)}`.",
            )
        return {**quotas}


def largest_remainder(size: int, weights: Mapping[str, float] | Mapping[str | None, int]) -> dict[str | None, int]:
    """Whole numbers that sum to ``size``, each within one of its proportion (Hamilton's method).

    Args:
        size: How many to give out.
        weights: Proportions of any scale; equal remainders go by weight, then by name.
    """
    total = sum(weights.values())
    exact = {name: size * weight / total for name, weight in weights.items()} if total else {}
    quotas: dict[str | None, int] = {name: int(value) for name, value in exact.items()}
    ranked = sorted(exact, key=lambda name: (quotas[name] - exact[name], -exact[name], name or ""))
    for name in ranked[: size - sum(quotas.values())] if exact else ():
        quotas[name] += 1
    return quotas


def _name(category: str | None) -> str:
    return "without a category" if category is None else category
