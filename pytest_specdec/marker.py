"""The marks' names, their help, and which tests they concern. Importing this must stay cheap: every pytest run does it."""

from __future__ import annotations

import pytest

SLO_MARK = "spec_slo"
LOAD_MARK = "spec_load"
MEASURING_FIXTURE = "spec_comparison"
LIVE_FIXTURE = "spec_canary"

MARKERS = (
    (
        f"{SLO_MARK}(tpot_gain=0.3, min_acceptance_length=1.5, ..., configs='ngram*'): objectives that the test's spec_comparison "
        "must meet; keyword only. `configs` limits them to matching config ids; None removes an inherited objective."
    ),
    (
        f"{LOAD_MARK}(workload='chat', concurrency=8 | request_rate=1 | load='NAME', num_requests=64, max_tokens=128, ...): the "
        "conditions under which the test's spec_comparison is measured; keyword only."
    ),
)


def is_gate(item: pytest.Item) -> bool:
    """Whether the plugin judges this test: it measures or looks at live traffic, and it has an objective."""
    judged = isinstance(item, pytest.Function) and (measures(item) or judges_live(item))
    return judged and item.get_closest_marker(SLO_MARK) is not None


def measures(item: pytest.Function) -> bool:
    """Whether the test asks for a comparison, itself or through another fixture."""
    return MEASURING_FIXTURE in item.fixturenames


def judges_live(item: pytest.Function) -> bool:
    """Whether the test asks for live traffic, likewise."""
    return LIVE_FIXTURE in item.fixturenames


def is_marked(item: pytest.Item) -> bool:
    """Whether any of our marks stands on the test, or above it."""
    return any(mark.name in (SLO_MARK, LOAD_MARK) for mark in item.iter_markers())
