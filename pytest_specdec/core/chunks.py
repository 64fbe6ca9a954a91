"""Token chunks of many requests as arrays: when each came, what it carried, and the gaps between them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.run_table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.samples import RequestSample


@dataclass(frozen=True)
class ChunkTable:
    """The token chunks of a set of requests, one row each, request after request; shape (chunks,)."""

    time_s: Floats
    tokens: Floats
    """Tokens in the chunk. Where the server sent no ids, those after the first are spread evenly: good enough to place them
    in time, not for ITL."""
    request: NDArray[np.int32]
    """Row of the request."""
    told: bool = True
    """Whether the server sent the ids of every request."""

    @functools.cached_property
    def first(self) -> NDArray[np.bool_]:
        """True at each request's first chunk."""
        changes: NDArray[np.bool_] = np.diff(self.request, prepend=-1) != 0
        return changes

    def gaps(self) -> tuple[Floats, NDArray[np.int32]]:
        """Seconds between neighbouring chunks of a request, and the row of that request."""
        later = np.flatnonzero(~self.first)
        return self.time_s[later] - self.time_s[later - 1], self.request[later]

    def itl(self) -> tuple[Floats, NDArray[np.int32]]:
        """Token-normalised gaps: one that carries ``q`` tokens counts as ``q`` values of gap / ``q``.

        A chunk without a token of its own (it only ends the answer) belongs to the gap of the next one.
        """
        kept = np.flatnonzero(self.first | (self.tokens > 0))
        time_s, request = self.time_s[kept], self.request[kept]
        later = np.flatnonzero(np.diff(request) == 0) + 1
        tokens = self.tokens[kept[later]].astype(np.int32)
        per_token = (time_s[later] - time_s[later - 1]) / tokens
        return np.repeat(per_token, tokens), np.repeat(request[later], tokens)


def chunk_table(samples: Sequence[RequestSample]) -> ChunkTable:
    """The chunks of several requests in a row."""
    return _chunks_of([(RunTable(samples), np.ones(len(samples), dtype=np.bool_))])


def chunks_of_successes(tables: Sequence[RunTable]) -> ChunkTable:
    """The chunks of all requests that succeeded, of several runs in a row."""
    return _chunks_of([(table, table.ok) for table in tables])


def _chunks_of(parts: Sequence[tuple[RunTable, NDArray[np.bool_]]]) -> ChunkTable:
    counts = np.concatenate([table.times.sizes[chosen] for table, chosen in parts])
    return ChunkTable(
        time_s=np.concatenate([table.times.of(chosen) for table, chosen in parts]),
        tokens=np.concatenate([_tokens_per_chunk(table, chosen) for table, chosen in parts]),
        request=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        told=all(bool(table.chunk_tokens.told[chosen].all()) for table, chosen in parts),
    )


def _tokens_per_chunk(table: RunTable, chosen: NDArray[np.bool_]) -> Floats:
    told, sizes, tokens = table.chunk_tokens.told[chosen], table.times.sizes[chosen], table.tokens[chosen]
    if told.all():
        return table.chunk_tokens.of(chosen).astype(np.float64)
    later = sizes - 1
    spread = np.repeat(np.where(later < 1, tokens, (tokens - 1) / np.maximum(later, 1)), sizes)
    spread[(sizes.cumsum() - sizes)[later > 0]] = 1.0
    spread[np.repeat(told, sizes)] = table.chunk_tokens.of(chosen & table.chunk_tokens.told)
    return spread
