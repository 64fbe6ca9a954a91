"""Verdicts as text, against tables written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.verdict import Direction, Estimate, Outcome, Requirement, Unit, Verdict
from pytest_specdec.reporting.verdict_table import headline, objectives_text, remark_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def verdict(
    objective: str,
    required: float,
    value: float,
    interval: tuple[float | None, float | None] = (None, None),
    *,
    outcome: Outcome = "FAIL",
    direction: Direction = "higher",
    unit: Unit = "fraction",
    level: float | None = 0.95,
    part: str | None = None,
    advice: str = "",
    excluded: int = 0,
) -> Verdict:
    return Verdict(
        requirement=Requirement(objective, required, part),
        estimate=Estimate(value, *interval, level, excluded=excluded),
        outcome=outcome,
        direction=direction,
        unit=unit,
        advice=advice,
    )


GAIN = verdict("tpot_gain", 0.3, 0.214, (0.189, 0.238))
LENGTH = verdict("min_acceptance_length", 1.5, 1.31, (1.28, 1.34), unit="tokens")
THROUGHPUT = verdict("throughput_gain", 0.0, 0.201, (0.18, 0.222), outcome="ok")
TTFT = verdict("ttft_p95_ms", 250, 246, (231, 262), outcome="unsure", direction="lower", unit="ms")


def table(*verdicts: Verdict, confidence: float = 0.95) -> Sequence[str]:
    return table_lines(verdicts, confidence=confidence)


def test_headline_lists_the_misses_and_counts_the_unsure() -> None:
    assert headline([GAIN, LENGTH, THROUGHPUT, TTFT]) == (
        "2 of 4 objectives missed, 1 unsure: tpot_gain 21.4 % < 30 %, min_acceptance_length 1.31 < 1.5"
    )


def test_a_row_tells_what_is_not_met_first_and_few_of_many() -> None:
    assert objectives_text([THROUGHPUT, TTFT, GAIN]) == (
        "tpot_gain 21.4 % < 30 %, ttft_p95_ms <= 250 not proven (231 .. 262), throughput_gain 20.1 % >= 0 %"
    )
    assert objectives_text([THROUGHPUT] * 4).count(">=") == 4
    many = objectives_text([*[THROUGHPUT] * 6, GAIN])
    assert many.startswith("tpot_gain")
    assert many.endswith(">= 0 %, and 3 more")


@pytest.mark.parametrize(
    ("met", "text"),
    [
        (verdict("ttft_p95_ms", 250, 240, direction="lower", unit="ms"), "ttft_p95_ms 240 <= 250"),
        (verdict("lossless", 1, 1, unit="yes/no"), "lossless: yes"),
        (verdict("min_acceptance_at", 0.5, 0.61, part="0"), "min_acceptance_at[0] 61.0 % >= 50 %"),
    ],
)
def test_a_met_objective_stands_beside_what_was_measured(met: Verdict, text: str) -> None:
    assert objectives_text([replace(met, outcome="ok")]) == text


def test_beyond_the_highest_load_the_end_of_what_was_measured_is_compared() -> None:
    crossover = verdict("min_crossover_concurrency", 16, 32, unit="count", outcome="ok")
    beyond = replace(crossover, estimate=replace(crossover.estimate, censored="above"))
    assert objectives_text([beyond]) == "min_crossover_concurrency 32 >= 16"


def test_headline_of_an_upper_limit_that_was_missed() -> None:
    slow = verdict("tpot_p95_ms", 18, 21.46, direction="lower", unit="ms")
    assert headline([slow]) == "1 of 1 objective missed: tpot_p95_ms 21.5 > 18"


def test_headline_of_unsure_objectives_shows_how_far_they_reach() -> None:
    gain = verdict("tpot_gain", 0.3, 0.31, (0.289, 0.331), outcome="unsure")
    assert headline([THROUGHPUT, TTFT, gain]) == (
        "2 of 3 objectives unsure: ttft_p95_ms <= 250 not proven (231 .. 262), tpot_gain >= 30 % not proven (28.9 .. 33.1 %)"
    )


def test_headline_when_all_is_well() -> None:
    assert headline([THROUGHPUT]) == "1 of 1 objective met"


def test_headline_names_the_part_of_a_mapping() -> None:
    position = verdict("min_acceptance_at", 0.7, 0.61, part="0")
    assert headline([position]) == "1 of 1 objective missed: min_acceptance_at[0] 61.0 % < 70 %"


def test_table_of_all_outcomes() -> None:
    assert table(GAIN, LENGTH, THROUGHPUT, TTFT) == [
        "          objective                required     measured                 95 % interval",
        "  FAIL    tpot_gain                >= 30.0 %    21.4 %     (-8.6 pp)     18.9 .. 23.8 %",
        "  FAIL    min_acceptance_length    >= 1.50      1.31       (-0.19)       1.28 .. 1.34",
        "  ok      throughput_gain          >=  0.0 %    20.1 %     (+20.1 pp)    18.0 .. 22.2 %",
        "  unsure  ttft_p95_ms              <=  250       246       (-4)           231 .. 262",
    ]


def test_interval_corrected_for_looks_names_both() -> None:
    corrected = verdict("tpot_gain", 0.3, 0.214, (0.189, 0.238), level=0.9875)
    assert table(corrected) == [
        "          objective    required     measured                98.75 % interval (4 looks)",
        "  FAIL    tpot_gain    >= 30.0 %    21.4 %     (-8.6 pp)    18.9 .. 23.8 %",
    ]


def test_interval_of_another_level_says_so() -> None:
    other = verdict("throughput_gain", 0.0, 0.201, (0.18, 0.222), outcome="ok", level=0.99)
    assert table(GAIN, LENGTH, other)[-1].endswith("18.0 .. 22.2 % (99 %)")


def test_fact_has_no_interval() -> None:
    memory = verdict("max_gpu_memory_gib", 20, 18.2, outcome="ok", direction="lower", unit="GiB", level=None)
    assert table(memory) == [
        "          objective             required    measured",
        "  ok      max_gpu_memory_gib    <= 20.0     18.2       (-1.8)    -",
    ]


def test_open_end_of_an_interval_is_a_question_mark() -> None:
    tail = verdict("ttft_p99_ms", 250, 246, (231, None), outcome="unsure", direction="lower", unit="ms")
    assert table(tail)[-1].endswith("231 .. ?")


@pytest.mark.parametrize(("value", "shown"), [(8.126, "8.13"), (18.26, "18.3"), (246.4, "246")])
def test_milliseconds_have_three_digits_that_count(value: float, shown: str) -> None:
    line = table(verdict("tpot_p95_ms", 1, value, direction="lower", unit="ms"))[-1]
    assert line.split()[4] == shown


def test_miss_by_less_than_a_digit_is_still_visible() -> None:
    assert headline([verdict("tpot_gain", 0.3, 0.29996)]) == "1 of 1 objective missed: tpot_gain 29.996 % < 30 %"


def test_zero_has_no_sign() -> None:
    assert "-0.0" not in table(verdict("tpot_gain", 0.0, 0.0, (-1e-9, 1e-9), outcome="ok"))[-1]


def test_no_verdicts_no_table() -> None:
    assert table() == []


def test_remarks_are_advice_for_what_is_not_ok_and_left_out_requests() -> None:
    verdicts = [
        verdict("tpot_gain", 0.3, 0.31, outcome="unsure", advice="about 4 more rounds would settle it.", excluded=3),
        verdict("ttft_gain", 0.0, 0.1, outcome="ok", advice="never shown", excluded=1),
        verdict("e2el_gain", 0.1, 0.0, advice="provable now: e2el_gain >= -2.0 %"),
    ]
    assert remark_lines(verdicts) == [
        "tpot_gain: about 4 more rounds would settle it.",
        "tpot_gain: 3 requests are left out, being undefined there",
        "ttft_gain: 1 request is left out, being undefined there",
        "provable now: e2el_gain >= -2.0 %",
    ]


numbers = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(st.sampled_from(get_args(Unit)), numbers, numbers)
def test_value_and_requirement_never_look_equal_unless_they_nearly_are(
    unit: Unit, value: float, required: float
) -> None:
    line = table(verdict("x", required, value, unit=unit))[-1].replace(" %", "")
    _, _, _, shown_required, shown_value, *_ = line.split()
    if shown_value == shown_required:
        scale = 100 if unit == "fraction" else 1
        assert math.isclose(value * scale, required * scale, abs_tol=1.01e-6, rel_tol=1e-12)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(verdict, st.sampled_from(["tpot_gain", "x"]), numbers, numbers, st.tuples(numbers, numbers)),
        min_size=1,
    )
)
def test_intervals_stand_below_each_other(verdicts: list[Verdict]) -> None:
    # With room for every number: a row that folds has no interval in its first line.
    lines = table_lines(verdicts, confidence=0.95, width=1000)
    assert len({line.index(" .. ") for line in lines[1:]}) == 1
