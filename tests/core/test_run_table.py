"""A run as arrays says what its samples say, whether they are in memory or columns of a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.metrics import decode_span_s, e2el_s, tpot_s, ttft_s
from pytest_specdec.core.run_table import RunTable
from pytest_specdec.core.sample_columns import columns_of, samples_from
from pytest_specdec.core.samples import RequestSample, RequestSpecStats

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = RequestSample(
    index=0,
    prompt=7,
    category="code",
    due_s=0.25,
    sent_s=0.5,
    token_times_s=(0.75, 0.8125, 1.0),
    chunk_tokens=(2, 1, 3),
    completion_tokens=6,
    spec=RequestSpecStats(2, 6, 3, (1, 2)),
    form=AnswerForm(repeated_share=0.5, blank=False, damaged=True),
)
SAMPLES: tuple[RequestSample, ...] = (
    WHOLE,
    replace(WHOLE, index=1, prompt=8, category=None, due_s=None, chunk_tokens=None, spec=None, form=None),
    replace(WHOLE, index=2, token_times_s=(1.5,), chunk_tokens=(6,), conversation=3),
    RequestSample(index=3, prompt=9, category=None, due_s=0.5, sent_s=0.5, error="HTTP 500: no"),
)


@pytest.fixture(params=["in memory", "of a file"])
def samples(request: pytest.FixtureRequest) -> Sequence[RequestSample]:
    return SAMPLES if request.param == "in memory" else samples_from(json.loads(json.dumps(columns_of(SAMPLES))))


def test_times_follow_the_definitions(samples: Sequence[RequestSample]) -> None:
    table = RunTable(samples)
    answered = SAMPLES[:3]
    assert table.ttft_s[:3].tolist() == [ttft_s(one) for one in answered]
    assert table.e2el_s[:3].tolist() == [e2el_s(one) for one in answered]
    assert table.decode_span_s[:3].tolist() == [decode_span_s(one) for one in answered]
    assert table.tpot_s[:2].tolist() == [tpot_s(one) for one in answered[:2]]
    assert tpot_s(answered[2]) is None
    assert math.isnan(table.tpot_s[2])


def test_a_failed_request_has_a_row_and_no_times(samples: Sequence[RequestSample]) -> None:
    table = RunTable(samples)
    assert table.ok.tolist() == [True, True, True, False]
    assert np.isnan([table.ttft_s[3], table.e2el_s[3], table.tpot_s[3]]).all()


def test_fields_that_a_request_lacks_are_nan_or_none(samples: Sequence[RequestSample]) -> None:
    table = RunTable(samples)
    assert table.due_s.tolist()[::2] == [0.25, 0.25]
    assert math.isnan(table.due_s[1])
    assert table.real("form.damaged")[0] == 1
    assert math.isnan(table.real("form.damaged")[1])
    assert table.column("spec.accepted_tokens") == [3, None, 3, None]
    assert list(table.column("spec")) == [one.spec for one in SAMPLES]


def test_turns_of_a_conversation_are_one_content(samples: Sequence[RequestSample]) -> None:
    assert RunTable(samples).content.tolist() == [one.content for one in SAMPLES]


def test_numbers_of_chosen_requests(samples: Sequence[RequestSample]) -> None:
    chunks = RunTable(samples).chunk_tokens
    assert chunks.told.tolist() == [True, False, True, False]
    assert chunks.of(np.array([False, False, True, False])).tolist() == [6]
    assert list(chunks) == [one.chunk_tokens for one in SAMPLES]


def test_sums_over_the_numbers_of_each_request(samples: Sequence[RequestSample]) -> None:
    table = RunTable(samples)
    assert table.chunk_tokens.sums(table.chunk_tokens.flat > 1).tolist() == [2, 0, 1, 0]
    assert table.times.sums(table.times.flat > 0.8).tolist() == [2, 2, 1, 0]
    untold = RunTable(samples[3:]).chunk_tokens
    assert untold.sums(untold.flat).tolist() == [0]


def test_samples_of_a_file_are_as_good_as_a_tuple() -> None:
    read = samples_from(columns_of(SAMPLES))
    assert len(read) == len(SAMPLES)
    assert read == SAMPLES
    assert read == samples_from(columns_of(SAMPLES))
    assert read != SAMPLES[:1]
    assert (read[1], read[1:]) == (SAMPLES[1], SAMPLES[1:])
    assert repr(read) == repr(SAMPLES)
    assert hash(read) == hash(SAMPLES)
