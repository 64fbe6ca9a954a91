"""Loops, cut, blank and damaged answers: told from tokens and text, and compared between the servers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.answer_form import SHORTEST, AnswerForm, form_of, repeated_share
from pytest_specdec.core.degenerate import defect_notes, defects_of, max_loop_share
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.reporting.answer_lines import defect_lines
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate

FINE = AnswerForm(0.0, blank=False, damaged=False)
LOOP = AnswerForm(1.0, blank=False, damaged=False)


def comparison_of_forms(
    base: list[AnswerForm], spec: list[AnswerForm], *, rounds: int = 1, tokens: int = 64
) -> Comparison:
    """Answers of these forms, one prompt each, the same in every round."""
    built = build_comparison(requests=len(base), rounds=rounds, tokens=tokens)
    forms = {"baseline": base, "specdec": spec}
    return replace(
        built,
        runs=tuple(
            replace(
                run,
                samples=tuple(
                    replace(sample, form=forms[run.arm][sample.index], finish_reason="length") for sample in run.samples
                ),
            )
            for run in built.runs
        ),
    )


@given(st.integers(1, 24), st.integers(0, 60))
def test_a_cycle_is_a_loop_whatever_its_period(period: int, before: int) -> None:
    beginning = list(range(1000, 1000 + before))
    tokens = beginning + list(range(period)) * ((96 + period) // period)
    assert form_of("x", tokens).loops


@given(st.integers(SHORTEST, 200))
def test_an_answer_without_repeats_is_none(length: int) -> None:
    assert repeated_share(list(range(length))) == 0


def test_a_list_with_the_same_frame_in_every_line_is_no_loop() -> None:
    tokens = [token for line in range(30) for token in (1, 2, 3, 4, 5, 6, 1000 + line, 2000 + line)]
    assert 0.2 < (repeated_share(tokens) or 0) < 0.6
    assert not form_of("x", tokens).loops


def test_a_loop_is_one_only_at_the_end() -> None:
    assert not form_of("x", [1, 2, 3] * 40 + list(range(100, 160))).loops


@pytest.mark.parametrize("tokens", [None, [], [1] * (SHORTEST - 1)])
def test_short_or_unknown_answers_tell_nothing(tokens: list[int] | None) -> None:
    assert repeated_share(tokens) is None
    assert not form_of("x", tokens).loops


@pytest.mark.parametrize(
    ("text", "blank", "damaged"),
    [("words", False, False), ("", True, False), (" \n\t", True, False), ("a\ufffdb", False, True), ("�", False, True)],
)
def test_text_is_looked_at(text: str, *, blank: bool, damaged: bool) -> None:
    form = form_of(text, None)
    assert (form.blank, form.damaged) == (blank, damaged)


@pytest.mark.parametrize(
    ("text", "parses"),
    [
        ('{"a": 1}', True),
        ('{"a": 1', False),
        ('[{"a": 1}, {"a": 2}]', True),
        ('["x", ]', False),
        ('```json\n{"a": [1, 2]}\n```', True),
        ('```json\n{"a": [1, 2}\n```', False),
        ("{}", True),
        ("[Your Name], hello", None),
        ("{name} is a placeholder", None),
        ("words", None),
        ("", None),
        ("```python\nprint()\n```", None),
        ('{"a":' * 100_000, False),
    ],
)
def test_what_begins_as_json_is_parsed(text: str, *, parses: bool | None) -> None:
    assert form_of(text, None).parses is parses
    assert form_of(text, None, cut=True).parses is None


def loop_share(base: list[AnswerForm], spec: list[AnswerForm], required: float = 0.1) -> Estimate:
    requirement = REGISTRY["max_loop_share"].parse(required)[0]
    return max_loop_share(Evidence(comparison_of_forms(base, spec), 0.95), requirement)


def test_the_share_is_of_the_speculating_servers_answers() -> None:
    estimate = loop_share([FINE] * 40, [LOOP] * 10 + [FINE] * 30)
    assert estimate.value == 0.25
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0.13 < estimate.low < 0.25 < estimate.high < 0.42
    assert estimate.remark == "the baseline loops in 0.0 % of its answers"


def test_no_loop_in_many_prompts_proves_a_small_share() -> None:
    estimate = loop_share([FINE] * 100, [FINE] * 100)
    assert estimate.value == 0
    assert estimate.high is not None
    assert estimate.high < 0.05


def test_rounds_do_not_make_more_prompts() -> None:
    one, three = (
        max_loop_share(
            Evidence(comparison_of_forms([FINE] * 30, [FINE] * 30, rounds=rounds), 0.95),
            REGISTRY["max_loop_share"].parse(0.1)[0],
        )
        for rounds in (1, 3)
    )
    assert one.high == three.high


def test_answers_that_are_cut_too_early_cannot_be_judged() -> None:
    comparison = comparison_of_forms([FINE] * 8, [FINE] * 8, tokens=20)
    with pytest.raises(CannotMeasure, match="cut after 20 tokens"):
        max_loop_share(Evidence(comparison, 0.95), REGISTRY["max_loop_share"].parse(0.1)[0])


def test_without_token_ids_loops_cannot_be_told() -> None:
    comparison = comparison_of_forms([FINE] * 8, [FINE] * 8)
    runs = tuple(
        replace(run, samples=tuple(replace(sample, token_ids=None, chunk_tokens=None) for sample in run.samples))
        for run in comparison.runs
    )
    with pytest.raises(CannotMeasure, match="token ids"):
        max_loop_share(Evidence(replace(comparison, runs=runs), 0.95), REGISTRY["max_loop_share"].parse(0.1)[0])


def test_a_difference_beyond_chance_is_noted() -> None:
    damaged = replace(FINE, damaged=True)
    comparison = comparison_of_forms([FINE] * 40, [damaged] * 10 + [FINE] * 30)
    (note,) = defect_notes(comparison)
    assert note.startswith("25.0 % of the speculating server's answers hold damaged text, 0.0 % of the baseline's")
    assert defect_notes(replace(comparison, extra={"verification": "fly"})) == (note,)
    assert defect_notes(replace(comparison, extra={"verification": "synthetic"})) == ()


def test_the_same_defects_on_both_sides_are_shown_and_not_noted() -> None:
    comparison = comparison_of_forms([LOOP] * 10 + [FINE] * 30, [LOOP] * 10 + [FINE] * 30)
    assert defect_notes(comparison) == ()
    assert defect_lines(comparison) == [
        "answers (specdec / baseline): 25.0 / 25.0 % loop, 100.0 / 100.0 % are cut at max_tokens"
    ]


def test_one_odd_prompt_is_chance() -> None:
    assert defect_notes(comparison_of_forms([FINE] * 40, [LOOP] + [FINE] * 39)) == ()


def test_where_all_is_well_nothing_is_said() -> None:
    assert defect_lines(comparison_of_forms([FINE] * 8, [FINE] * 8)) == []


def test_with_ignore_eos_being_cut_is_no_defect() -> None:
    comparison = comparison_of_forms([FINE] * 8, [FINE] * 8)
    cut = [one.name for one in defects_of(comparison)]
    ignoring = replace(comparison, load=replace(comparison.load, ignore_eos=True))
    assert "are cut at max_tokens" in cut
    assert "are cut at max_tokens" not in [one.name for one in defects_of(ignoring)]


def test_before_the_first_run_there_are_no_defects() -> None:
    assert defects_of(replace(build_comparison(), runs=())) == ()
