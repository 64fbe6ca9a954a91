"""Bytes of complete answers: in memory while they are few, in a file when they are many, the same in both."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load import shelf
from pytest_specdec.load.answer import Transfer, read_answer
from pytest_specdec.load.shelf import Shelf
from tests.load.stub_server import ANSWER, Stub, planned
from tests.load.test_window import run

if TYPE_CHECKING:
    import pytest

    from pytest_specdec.load.window import Window


def transfer(*pieces: bytes) -> Transfer:
    (request,) = planned(1)
    return Transfer(request, sent=1.0, reads=[(2.0 + place, piece) for place, piece in enumerate(pieces)], ended=9.0)


def test_few_answers_stay_in_memory() -> None:
    one = transfer(b"a", b"b")
    Shelf().put(one)
    assert one.shelved is None
    assert one.all_reads() == [(2.0, b"a"), (3.0, b"b")]


def test_many_answers_go_to_the_file_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "IN_MEMORY_BYTES", 3)
    kept = Shelf()
    transfers = [transfer(b"ab"), transfer(b"cd", b"e"), transfer(b"f")]
    for one in transfers:
        kept.put(one)
    assert [one.reads for one in transfers] == [[(2.0, b"ab")], [], []]
    assert [one.all_reads() for one in transfers] == [[(2.0, b"ab")], [(2.0, b"cd"), (3.0, b"e")], [(2.0, b"f")]]


def test_a_full_disk_leaves_them_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shelf, "IN_MEMORY_BYTES", 0)
    one = transfer(b"a")
    kept = Shelf()
    with monkeypatch.context() as context:
        context.setattr(os, "pwrite", full)
        kept.put(one)
    assert one.all_reads() == [(2.0, b"a")]


def test_a_write_that_is_cut_short_leaves_them_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "IN_MEMORY_BYTES", 0)
    one = transfer(b"a")
    with monkeypatch.context() as context:
        context.setattr(os, "pwrite", lambda _, data, __: len(data) - 1)
        Shelf().put(one)
    assert one.all_reads() == [(2.0, b"a")]


def test_a_window_reads_the_same_answers_from_the_file(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.routes["/v1/completions"] = lambda exchange: exchange.stream(*ANSWER)

    def seen(window: Window) -> list[tuple[int, str | None, int]]:
        samples = [read_answer(one, window_start=window.started) for one in window.transfers]
        return [(len(sample.token_times_s), sample.error, sample.completion_tokens) for sample in samples]

    in_memory = run(stub, planned(3), LoadSpec(concurrency=1))
    monkeypatch.setattr(shelf, "IN_MEMORY_BYTES", 0)
    in_file = run(stub, planned(3), LoadSpec(concurrency=1))
    assert [one.shelved is not None for one in in_file.transfers] == [True] * 3
    assert seen(in_file) == seen(in_memory)
