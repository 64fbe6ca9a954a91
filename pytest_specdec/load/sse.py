"""Server-sent events: bytes, cut anywhere, to the data of each event.

Follows the event stream format of the HTML standard (line ends CR, LF or CRLF; comments; several ``data`` lines in one
event), without the fields that vLLM does not use (``event``, ``id``, ``retry``) and without a byte order mark.
"""

from __future__ import annotations


class SseParser:
    """Turns pieces of a byte stream into event payloads; how the stream is cut makes no difference.

    An event that its blank line has not ended yet is kept for the next piece, and dropped at the end of the stream.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._after_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The payloads of the events that this piece completes, in order; several data lines are joined by LF."""
        if not piece:
            return []
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a CRLF that the cut went through
            self._after_cr = False
            if not piece:
                return []
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *events, self._tail = (self._tail + piece).split(b"\n\n")
        return [payload for event in events if (payload := _data_of(event)) is not None]


def _data_of(event: bytes) -> bytes | None:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    data = []
    for line in event.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
    return b"\n".join(data) if data else None
