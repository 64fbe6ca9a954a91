"""A load shared out among processes is the same load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.load_spec import LoadSpec, load_problems
from pytest_specdec.load.shares import CHUNKS_PER_S, FASTEST_CHUNKS_PER_S, clients_for, shared_out
from tests.load.stub_server import planned

CLOSED, OPEN = LoadSpec(concurrency=8), LoadSpec(concurrency=None, request_rate=4.0)


@given(requests=st.integers(1, 60), concurrency=st.integers(1, 20), clients=st.integers(1, 8))
def test_every_request_and_every_slot_is_given_out_once(requests: int, concurrency: int, clients: int) -> None:
    plan = planned(requests)
    shares = shared_out(plan, replace(CLOSED, concurrency=concurrency), clients)
    assert sorted(request.index for share in shares for request in share.plan) == list(range(requests))
    assert sum(share.load.concurrency or 0 for share in shares) == concurrency
    assert all(share.plan for share in shares)
    assert len(shares) == min(clients, concurrency, requests)


@given(requests=st.integers(1, 60), clients=st.integers(1, 8))
def test_requests_with_a_time_of_their_own_keep_it_and_their_order(requests: int, clients: int) -> None:
    plan = tuple(replace(request, due_s=request.index / 4) for request in planned(requests))
    shares = shared_out(plan, OPEN, clients)
    sent = [request for share in shares for request in share.plan]
    assert sorted(sent, key=lambda one: one.index) == list(plan)
    assert all(list(share.plan) == sorted(share.plan, key=lambda one: one.index) for share in shares)


def test_a_process_with_more_slots_gets_as_many_more_requests() -> None:
    shares = shared_out(planned(50), replace(CLOSED, concurrency=5), 2)
    assert [(share.load.concurrency, len(share.plan)) for share in shares] == [(3, 30), (2, 20)]


def test_a_conversation_stays_in_one_process() -> None:
    first, second, third, fourth, fifth = planned(5)
    plan = (first, replace(second, after=0), replace(third, after=1), fourth, replace(fifth, after=3))
    shares = shared_out(plan, CLOSED, 4)
    assert [[request.index for request in share.plan] for share in shares] == [[0, 1, 2], [3, 4]]


def test_one_process_unless_more_are_asked_for() -> None:
    assert clients_for(replace(CLOSED, concurrency=100_000), cores=64) == 1
    assert clients_for(replace(CLOSED, clients=3), cores=1) == 3


def test_auto_takes_more_where_a_core_could_not_keep_up() -> None:
    per_process = int(CHUNKS_PER_S / FASTEST_CHUNKS_PER_S)
    auto = replace(CLOSED, clients="auto")
    assert clients_for(replace(auto, concurrency=per_process), cores=64) == 1
    assert clients_for(replace(auto, concurrency=per_process + 1), cores=64) == 2
    assert clients_for(replace(auto, concurrency=100 * per_process), cores=4) == 4
    fast = replace(OPEN, clients="auto", request_rate=3 * CHUNKS_PER_S / 128, max_tokens=128)
    assert clients_for(fast, cores=64) == 3


@pytest.mark.parametrize("value", [0, 1.5, True, "many"])
def test_what_is_no_number_of_processes_is_refused(value: object) -> None:
    assert load_problems({"clients": value}) == [f"clients={value!r}: needs a whole number of at least 1, or 'auto'"]


def test_the_number_of_processes_is_no_condition_of_the_measurement() -> None:
    assert replace(CLOSED, clients=4).asked == CLOSED.asked
