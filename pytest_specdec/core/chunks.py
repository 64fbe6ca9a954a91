"""Token chunks of many requests as arrays: when each came, what it carried, and the gaps between them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.samples import RequestSample


@dataclass(frozen=True)
class ChunkTable:
    """The token chunks of a set of requests, one row each, request after request; shape (chunks,)."""

    time_s: Floats
    tokens: Floats
    """Tokens in the chunk. Where the server sent no ids, those after the first are spread evenly: good enough to place them
    in time, not for ITL."""
    request: Ints
    """Row of the request."""

    @property
    def first(self) -> NDArray[np.bool_]:
        """True at each request's first chunk."""
        changes: NDArray[np.bool_] = np.diff(self.request, prepend=-1) != 0
        return changes

    def gaps(self) -> tuple[Floats, Ints]:
        """Seconds between neighbouring chunks of a request, and the row of that request."""
        later = np.flatnonzero(~self.first)
        return self.time_s[later] - self.time_s[later - 1], self.request[later]

    def itl(self) -> tuple[Floats, Ints]:
        """Token-normalised gaps: one that carries ``q`` tokens counts as ``q`` values of gap / ``q``.

        A chunk without a token of its own (it only ends the answer) belongs to the gap of the next one.
        """
        kept = np.flatnonzero(self.first | (self.tokens > 0))
        time_s, request, tokens = self.time_s[kept], self.request[kept], self.tokens[kept].astype(np.int64)
        later = np.flatnonzero(np.diff(request) == 0) + 1
        per_token = (time_s[later] - time_s[later - 1]) / tokens[later]
        return np.repeat(per_token, tokens[later]), np.repeat(request[later], tokens[later])


def chunk_table(samples: Sequence[RequestSample]) -> ChunkTable:
    """The chunks of several requests in a row."""
    counts = np.array([len(sample.token_times_s) for sample in samples], dtype=np.int64)
    total = int(counts.sum())
    times = itertools.chain.from_iterable(sample.token_times_s for sample in samples)
    tokens = itertools.chain.from_iterable(_tokens_per_chunk(sample) for sample in samples)
    return ChunkTable(
        time_s=np.fromiter(times, dtype=np.float64, count=total),
        tokens=np.fromiter(tokens, dtype=np.float64, count=total),
        request=np.repeat(np.arange(len(samples)), counts),
    )


def _tokens_per_chunk(sample: RequestSample) -> Sequence[float]:
    if sample.chunk_tokens is not None:
        return sample.chunk_tokens
    later = len(sample.token_times_s) - 1
    if later < 1:
        return [sample.completion_tokens] * len(sample.token_times_s)
    return [1.0] + [(sample.completion_tokens - 1) / later] * later
