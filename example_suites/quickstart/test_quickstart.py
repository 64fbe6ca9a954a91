"""A first gate: does speculation pay on this machine, for edits of code (``edits.jsonl``) and for chat?

Run once per ``--specdec-config``. Each test measures the same requests with and without speculation. The thresholds are
far below what two idle CPU cores were seen to gain, so that a few requests decide them, and a busy laptop does not fail them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec import SpecComparison

pytestmark = pytest.mark.spec_load(concurrency=2, num_requests=6, max_tokens=16, rounds=4, max_rounds=4)


@pytest.mark.spec_load(workload="edits.jsonl")
@pytest.mark.spec_slo(tpot_gain=0.1, min_acceptance_length=1.8)
def test_edits(spec_comparison: SpecComparison) -> None:
    """Nothing to write here: the plugin judges the objectives. Asserts of your own would follow."""


@pytest.mark.spec_load(workload="chat")
# Free text is hard to draft: no gain is asked for here, only that an answer takes at most 40 % longer than without speculation.
@pytest.mark.spec_slo(tpot_gain=-0.4)
@pytest.mark.spec_slo(min_acceptance_length=1.2, configs="eagle3*")  # ngram seldom drafts in chat
def test_chat(spec_comparison: SpecComparison) -> None:
    """One test, other objectives per config."""
