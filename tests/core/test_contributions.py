"""What prompts contributed to acceptance, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_specdec.core.contributions import contributions
from pytest_specdec.core.run_table import RunTable
from pytest_specdec.core.samples import RequestSample, RequestSpecStats, ServerCounters

FIRST = RequestSample(
    index=0,
    prompt=0,
    category=None,
    due_s=None,
    sent_s=0.0,
    token_times_s=(0.1, 0.2, 0.3),
    chunk_tokens=(2, 1, 2),
    completion_tokens=5,
)
SECOND = replace(FIRST, index=1, token_times_s=(0.1, 0.2, 0.3, 0.4), chunk_tokens=(1, 4, 1, 1), completion_tokens=7)
FAILED = replace(FIRST, index=2, error="stream cut after 3 chunks")
RUNS = [RunTable([FIRST, FAILED]), RunTable([SECOND])]
COUNTERS = ServerCounters(drafts=4, draft_tokens=12, accepted_tokens=4, accepted_per_position=(2, 1, 1), decode_steps=5)


def test_chunks_after_the_first_are_steps_and_those_of_one_token_share_the_other_drafts() -> None:
    known = contributions([None, None], np.array([0, 1]), RUNS, COUNTERS)
    assert known is not None
    assert (known.steps.tolist(), known.accepted.tolist(), known.later_tokens.tolist()) == ([2, 3], [1, 3], [3, 6])
    assert [position.tolist() for position in known.reached] == [[1, 1], [0, 1], [0, 1]]
    assert known.drafts == pytest.approx([1 + 2 / 3, 1 + 4 / 3])
    assert known.draft_tokens == pytest.approx([5, 7])


def test_requests_of_one_prompt_add_up() -> None:
    known = contributions([None, None], np.array([0, 0]), RUNS, COUNTERS)
    assert known is not None
    assert (known.steps.tolist(), known.accepted.tolist(), known.later_tokens.tolist()) == ([5], [4], [9])
    assert known.drafts == pytest.approx([4])


def test_a_request_whose_chunks_do_not_tell_leaves_the_stream_without_a_word() -> None:
    runs = [RunTable([replace(FIRST, chunk_tokens=None)]), RUNS[1]]
    assert contributions([None, None], np.array([0, 1]), runs, COUNTERS) is None


def test_where_the_server_tells_of_each_request_chunks_need_not_tell_their_tokens() -> None:
    alone = replace(FIRST, index=3, token_times_s=(0.1,))
    untold = [replace(one, chunk_tokens=None) for one in (FIRST, alone)]
    stats = [RequestSpecStats(2, 6, 3, (1, 2)), RequestSpecStats(0, 0, 0, ()), RequestSpecStats(3, 9, 3, (3, 0, 0))]
    known = contributions(stats, np.array([0, 1, 2]), [RunTable(untold), RUNS[1]], COUNTERS)
    assert known is not None
    assert (known.drafts.tolist(), known.draft_tokens.tolist(), known.accepted.tolist()) == (
        [2, 0, 3],
        [6, 0, 9],
        [3, 0, 3],
    )
    assert (known.steps.tolist(), known.later_tokens.tolist()) == ([2, 0, 3], [4, 0, 6])
    assert [position.tolist() for position in known.reached] == [[2, 0, 1], [1, 0, 1], [0, 0, 1]]
