"""The requests of one run as arrays: what judging and reports look at, so that neither walks through a hundred thousand records."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_specdec.core.class_sums import class_name
from pytest_specdec.core.sample_columns import column, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.sample_columns import Numbers
    from pytest_specdec.core.samples import RequestSample

    Booleans = NDArray[np.bool_]


class RunTable:
    """One row for each request, failed ones included, in their order; every column is made when it is asked for.

    Arrays have shape (requests,). The definitions are those of :mod:`pytest_specdec.core.metrics`; a time that a request does not have is NaN.
    """

    def __init__(self, samples: Sequence[RequestSample]) -> None:
        self._samples = samples

    def column(self, name: str) -> Sequence[Any]:
        """A field of every sample; of its records by ``spec.NAME`` and ``form.NAME``, None where it has none."""
        return column(self._samples, name)

    @functools.cached_property
    def ok(self) -> Booleans:
        """Whether it succeeded."""
        return np.array([error is None for error in self.column("error")], dtype=np.bool_)

    @functools.cached_property
    def index(self) -> Ints:
        """Place in the plan."""
        return self._whole("index")

    @functools.cached_property
    def prompt(self) -> Ints:
        """Which prompt of the workload."""
        return self._whole("prompt")

    @functools.cached_property
    def content(self) -> Ints:
        """See :attr:`RequestSample.content`."""
        conversation = self.real("conversation")
        return np.where(np.isnan(conversation), self.prompt, -1 - conversation).astype(np.int64)

    @functools.cached_property
    def classes(self) -> NDArray[np.str_]:
        """What the class of its prompt is called."""
        return np.array([class_name(category) for category in self.column("category")], dtype=np.str_)

    @functools.cached_property
    def tokens(self) -> Ints:
        """Completion tokens, from the server's usage."""
        return self._whole("completion_tokens")

    @functools.cached_property
    def sent_s(self) -> Floats:
        """When it was sent."""
        return self.real("sent_s")

    @functools.cached_property
    def due_s(self) -> Floats:
        """When it was to be sent; NaN in a closed loop."""
        return self.real("due_s")

    @functools.cached_property
    def times(self) -> Numbers:
        """Arrivals of token chunks."""
        return numbers(self._samples, "token_times_s")

    @functools.cached_property
    def chunk_tokens(self) -> Numbers:
        """Tokens of each chunk, where they are told."""
        return numbers(self._samples, "chunk_tokens")

    @functools.cached_property
    def first_s(self) -> Floats:
        """Arrival of the first chunk."""
        return self.times.first(missing=np.nan)

    @functools.cached_property
    def last_s(self) -> Floats:
        """Arrival of the last chunk."""
        return self.times.last(missing=np.nan)

    @property
    def ttft_s(self) -> Floats:
        """Time to first token."""
        return self.first_s - self.sent_s

    @property
    def e2el_s(self) -> Floats:
        """End-to-end latency."""
        return self.last_s - self.sent_s

    @property
    def decode_span_s(self) -> Floats:
        """From the first chunk to the last."""
        return self.last_s - self.first_s

    @functools.cached_property
    def tpot_s(self) -> Floats:
        """Time per output token after the first chunk."""
        later = self.tokens - self.chunk_tokens.first(missing=1)
        return np.where(later > 0, self.decode_span_s / np.maximum(later, 1), np.nan)

    def _whole(self, name: str) -> Ints:
        return np.array(self.column(name), dtype=np.int64)

    def real(self, name: str) -> Floats:
        """A field that is a number or true or false, NaN where it is None."""
        return np.array(self.column(name), dtype=np.float64)
