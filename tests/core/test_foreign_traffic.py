"""What of a run on shared servers is this client's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.foreign_traffic import own_run
from pytest_specdec.core.judge import Figures
from pytest_specdec.core.saved import conditions
from pytest_specdec.core.validity import check_comparison
from tests.core.comparison_builder import build_comparison, change_counters, change_runs, change_samples

if TYPE_CHECKING:
    from typing import Any

    from pytest_specdec.core.samples import Comparison, ServerCounters


def shared(comparison: Comparison, *, drafts_each_step: bool = True, others: int = 5000) -> Comparison:
    """The same on servers that somebody else used, too."""
    for arm in ("baseline", "specdec"):
        before = comparison.arm(arm)[0].counters
        more: dict[str, Any] = {"generation_tokens": (before.generation_tokens or 0) + others, "finished_requests": 99}
        if arm == "specdec":
            more |= {"decode_steps": (before.decode_steps or 0) + others, "drafts": (before.drafts or 0) + others}
            more |= {"draft_tokens": (before.draft_tokens or 0) + 3 * others}
        comparison = change_counters(comparison, arm, **more)
    comparison = replace(comparison, extra={"traffic": "foreign"})
    return change_runs(comparison, lambda run: own_run(run, 3, drafts_each_step=drafts_each_step))


def counted(comparison: Comparison) -> ServerCounters:
    return comparison.arm("specdec")[0].counters


def test_everybody_elses_tokens_are_an_error_only_where_they_are_not_allowed() -> None:
    check_comparison(shared(build_comparison()))
    foreign = change_counters(build_comparison(), generation_tokens=9999)
    with pytest.raises(InvalidMeasurement, match="9999 generated tokens") as raised:
        check_comparison(foreign)
    assert "--specdec-allow=foreign-traffic" in (raised.value.remedy or "")


def test_the_stream_tells_what_the_servers_counters_would_without_the_others() -> None:
    alone = build_comparison(tokens=200, acceptance=(0.8, 0.6, 0.4))
    own, server = counted(shared(alone)), counted(alone)
    assert (own.drafts, own.draft_tokens) == (server.drafts, server.draft_tokens)
    assert (own.decode_steps, own.generation_tokens) == (server.decode_steps, server.generation_tokens)
    assert own.accepted_tokens is not None
    assert server.accepted_tokens is not None
    # What the end of each of 16 answers cut off, up to 3 tokens each.
    assert 0 <= server.accepted_tokens - own.accepted_tokens <= 3 * 16
    assert own.accepted_per_position is not None
    assert sum(own.accepted_per_position) == own.accepted_tokens


def test_figures_per_request_tell_it_exactly() -> None:
    alone = build_comparison(per_request_stats=True, coverage=0.5)
    own, server = counted(shared(alone, drafts_each_step=False)), counted(alone)
    told = ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position", "decode_steps", "generation_tokens")
    assert [getattr(own, name) for name in told] == [getattr(server, name) for name in told]


def test_where_not_every_step_drafts_the_stream_tells_tokens_per_step_alone() -> None:
    comparison = shared(build_comparison(coverage=0.5, method="ngram"), drafts_each_step=False)
    check_comparison(comparison)
    assert counted(comparison).drafts is None
    estimate, problem = Figures(comparison).of("min_acceptance_length")
    assert estimate is None
    assert "do not tell which of its steps drafted" in problem
    per_step, _ = Figures(comparison).of("min_tokens_per_step")
    assert per_step is not None
    assert per_step.value > 1


@pytest.mark.parametrize("bundled", [None, (1, 5, 5, 5, 5, 5, 5, 2)])
def test_streams_that_do_not_show_steps_tell_neither(bundled: tuple[int, ...] | None) -> None:
    untold = change_samples(build_comparison(), lambda one: replace(one, chunk_tokens=bundled), arm="specdec")
    own = counted(shared(untold))
    assert (own.drafts, own.decode_steps) == (None, None)


@pytest.mark.parametrize("counter", ["generation_tokens", "finished_requests"])
def test_a_server_that_counts_less_than_arrived_is_another_one(counter: str) -> None:
    few = change_counters(build_comparison(), **{counter: 3})
    comparison = change_runs(few, lambda run: own_run(run, 3, drafts_each_step=True))
    with pytest.raises(InvalidMeasurement, match=r"the server (counted|finished) 3 ") as raised:
        check_comparison(comparison)
    assert "gateway" in (raised.value.remedy or "")


def test_speculation_is_still_confirmed_by_the_server() -> None:
    plain = change_counters(build_comparison(), drafts=None, draft_tokens=None, accepted_tokens=None)
    with pytest.raises(InvalidMeasurement, match="speculation was not on"):
        check_comparison(change_runs(plain, lambda run: own_run(run, 3, drafts_each_step=True)))
    speculating = change_counters(build_comparison(), "baseline", drafts=1, draft_tokens=3, accepted_tokens=0)
    with pytest.raises(InvalidMeasurement, match="the baseline speculates too"):
        check_comparison(change_runs(speculating, lambda run: own_run(run, 3, drafts_each_step=True)))


def test_no_acceptance_without_successes() -> None:
    failed = change_samples(build_comparison(), lambda one: replace(one, error="HTTP 500"))
    own = own_run(failed.arm("specdec")[0], 3, drafts_each_step=False)
    assert own.counters.drafts is None


def test_it_is_no_reference_for_a_server_of_ones_own() -> None:
    alone = build_comparison()
    differing = {name for name, value in conditions(alone).items() if conditions(shared(alone))[name] != value}
    assert differing == {"other traffic on the servers"}


def test_an_acceptance_objective_says_what_to_do() -> None:
    comparison = shared(build_comparison(method="ngram"), drafts_each_step=False)
    with pytest.raises(CannotMeasure) as raised:
        _ = Evidence(comparison, 0.95).acceptance
    assert "--per-request-spec-decode-metrics" in (raised.value.remedy or "")
