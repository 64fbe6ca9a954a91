"""Event streams are read the same however the network cuts them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.load.sse import SseParser

LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data:  c",
        b"data",
        b"data:",
        b": ping",
        b"event: x",
        b"id: 7",
        b"data: {\xc3\xa9}",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    return b"".join(line + draw(ENDS) for line in draw(st.lists(LINES, max_size=25)))


def by_the_standard(stream: bytes) -> list[bytes]:
    """The standard's own line-by-line algorithm, over the whole stream at once."""
    events: list[bytes] = []
    data: list[bytes] = []
    *lines, _ = re.split(rb"\r\n|\r|\n", stream)
    for line in lines:
        if not line:
            if data:
                events.append(b"\n".join(data))
            data = []
        elif re.match(rb"data(:|$)", line):
            data.append(line[5:].removeprefix(b" "))
    return events


def parse(pieces: list[bytes]) -> list[bytes]:
    parser = SseParser()
    return [payload for piece in pieces for payload in parser.feed(piece)]


@settings(deadline=None)
@given(streams(), st.data())
def test_any_cut_gives_the_events_of_the_standard(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(pieces) == by_the_standard(stream)


@settings(deadline=None)
@given(streams())
def test_single_bytes_give_the_events_of_the_standard(stream: bytes) -> None:
    assert parse([bytes([byte]) for byte in stream]) == by_the_standard(stream)


def test_an_event_belongs_to_the_piece_that_ends_it() -> None:
    parser = SseParser()
    assert parser.feed(b'data: {"a"') == []
    assert parser.feed(b": 1}\n") == []
    assert parser.feed(b'\ndata: [DONE]\n\ndata: "') == [b'{"a": 1}', b"[DONE]"]


def test_an_event_without_its_blank_line_is_no_event() -> None:
    assert parse([b"data: whole\n\ndata: half\n"]) == [b"whole"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_several_data_lines_are_one_event(end: bytes) -> None:
    assert parse([end.join([b": note", b"data: one", b"event: x", b"data: two", b"", b""])]) == [b"one\ntwo"]
