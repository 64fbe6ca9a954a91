"""What other plugins add through hooks: objectives for marks, notes on measurements, the last word on verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.own_objectives import register

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.judging import Judged

REPLACED = "replaced by a plugin (pytest_specdec_replace_verdicts)"


def add_objectives(config: pytest.Config) -> None:
    """Of every plugin, until pytest is done.

    Raises:
        pytest.UsageError: One cannot be meant like that.
    """
    given = config.hook.pytest_specdec_objectives(config=config)
    try:
        config.add_cleanup(register(own for several in given for own in several))
    except MarkError as error:
        raise pytest.UsageError(f"pytest_specdec_objectives: {error}") from None


def notes_of(config: pytest.Config, comparison: Comparison) -> list[str]:
    """What plugins say about a measurement."""
    given = config.hook.pytest_specdec_notes(config=config, comparison=comparison)
    return [str(note) for notes in given for note in notes or ()]


def last_word(item: pytest.Item, judged: Judged) -> Judged:
    """The verdicts, as far as a plugin replaces them.

    Raises:
        CannotMeasure: It returns others than it was given.
    """
    replaced = item.ihook.pytest_specdec_replace_verdicts(
        item=item, comparison=judged.comparison, verdicts=judged.verdicts
    )
    if replaced is None:
        return judged
    replaced = tuple(replaced)
    if [one.requirement for one in replaced] != [one.requirement for one in judged.verdicts]:
        raise CannotMeasure(
            "pytest_specdec_replace_verdicts must return one verdict for each that it was given, in their order"
        )
    changed = [
        now if now == before else replace(now, advice=REPLACED)
        for now, before in zip(replaced, judged.verdicts, strict=True)
    ]
    return replace(judged, verdicts=tuple(changed))
