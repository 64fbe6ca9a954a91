"""The tables as data: every entry is reached, can be printed, and cannot take long."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from pytest_specdec.serving.failures import find_cause
from pytest_specdec.serving.fallbacks import changed_by_vllm
from pytest_specdec.serving.log_tables import CauseEntry, Circumstances, FallbackEntry, causes, fallbacks
from pytest_specdec.serving.supervisor import ExitStatus

if sys.version_info >= (3, 11):
    from re import _constants as sre_constants
    from re import _parser as sre_parse
else:
    import sre_constants
    import sre_parse

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "server-failures.md").read_text(encoding="utf-8")
MOST_REPETITIONS = 4_000

by_id = pytest.mark.parametrize("entry", [*causes(), *fallbacks()], ids=lambda entry: entry.id)


@pytest.mark.parametrize("entry", [entry for entry in causes() if entry.patterns], ids=lambda entry: entry.id)
def test_the_sample_of_a_cause_is_explained_by_it_and_by_none_before_it(entry: CauseEntry) -> None:
    here = Circumstances(
        arm=entry.when.arm,
        method=entry.when.methods[0] if entry.when.methods else None,
        version=entry.when.since,
    )
    cause = find_cause(entry.sample, ExitStatus(code=entry.when.exit_code or 1), here)
    assert cause is not None
    assert cause.id == entry.id


@pytest.mark.parametrize("entry", fallbacks(), ids=lambda entry: entry.id)
def test_the_sample_of_a_change_is_told_in_one_sentence(entry: FallbackEntry) -> None:
    sentences = changed_by_vllm([entry.sample])
    assert len(sentences) == 1
    assert re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(entry.sentence)), sentences[0])


@by_id
def test_an_entry_is_found_by_patterns_or_by_an_event(entry: CauseEntry | FallbackEntry) -> None:
    assert bool(entry.patterns) != (isinstance(entry, CauseEntry) and entry.event is not None)


@by_id
def test_every_name_in_a_text_is_a_group_of_every_pattern(entry: CauseEntry | FallbackEntry) -> None:
    texts = [entry.explanation, entry.remedy] if isinstance(entry, CauseEntry) else [entry.sentence]
    names = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}
    assert all(names <= set(pattern.groupindex) for pattern in entry.patterns)
    assert not names or entry.patterns


@by_id
def test_no_pattern_can_take_long(entry: CauseEntry | FallbackEntry) -> None:
    """Every repetition has an end, and repetitions of repetitions go from line to line only."""
    for pattern in entry.patterns:
        check_repetitions(sre_parse.parse(pattern.pattern), inside=1)


def check_repetitions(parsed: Any, *, inside: int) -> None:
    for operator, argument in parsed:
        if operator in (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT):
            _, most, repeated = argument
            assert most is not sre_constants.MAXREPEAT, "a repetition without an end"
            assert most * inside <= 10 * MOST_REPETITIONS
            assert inside == 1 or most <= MOST_REPETITIONS
            check_repetitions(repeated, inside=inside * max(1, most if len(repeated) > 1 else 1))
        elif operator is sre_constants.SUBPATTERN:
            check_repetitions(argument[-1], inside=inside)
        elif operator is sre_constants.BRANCH:
            for branch in argument[1]:
                check_repetitions(branch, inside=inside)


def test_ids_are_unique() -> None:
    ids = [*(entry.id for entry in causes()), *(entry.id for entry in fallbacks())]
    assert len(set(ids)) == len(ids)


@by_id
def test_every_entry_is_in_the_documents_as_it_is(entry: CauseEntry | FallbackEntry) -> None:
    texts = (f"{entry.explanation}.", entry.remedy) if isinstance(entry, CauseEntry) else (f"{entry.sentence}.",)
    assert words(f"- **`{entry.id}`** {' '.join(readable(text) for text in texts)}") in words(PAGE)


def test_the_documents_name_no_entry_that_is_gone() -> None:
    assert set(re.findall(r"^- \*\*`([\w-]+)`\*\*", PAGE, re.MULTILINE)) == {
        *(entry.id for entry in causes()),
        *(entry.id for entry in fallbacks()),
    }


def readable(text: str) -> str:
    """With *name* where a message has what vLLM said."""
    return text.format_map({name: f"*{name}*" for _, name, _, _ in Formatter().parse(text) if name})


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_condition_on_what_is_not_known_does_not_hold() -> None:
    conditional = [entry for entry in causes() if entry.when.since or entry.when.methods]
    assert conditional
    assert not any(entry.when.holds(Circumstances()) for entry in conditional)
