"""A comparison as arrays: made once, on demand, and shared by all objectives that are judged on it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pytest_specdec.core.acceptance import Acceptance, acceptance_of
from pytest_specdec.core.chunks import ChunkTable, chunks_of_successes
from pytest_specdec.core.contributions import Contributions, contributions
from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.metrics import pooled_counters
from pytest_specdec.core.samples import ARMS
from pytest_specdec.core.saved import nothing_to_compare_with
from pytest_specdec.core.steady import output_throughput
from pytest_specdec.core.tables import Pairs, RequestTable, Values, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Ints
    from pytest_specdec.core.run_table import RunTable
    from pytest_specdec.core.samples import Arm, ArmRun, Comparison, RequestSpecStats, ServerCounters
    from pytest_specdec.core.saved import Saved, SavedFor

RequestQuantity = Literal["ttft", "tpot", "e2el"]
Quantity = Literal["ttft", "tpot", "e2el", "itl", "chunk_gap"]

AT_ONCE_SHARE = 0.1
"""Of an arm's answers: so many may come in one moment, and then have no TPOT. A machine that stood still for a blink does that to
a request or two; whatever holds streams back does it to most."""


class Evidence:
    """What estimators see: the comparison, the level of their intervals, and the arrays behind both.

    Args:
        comparison: What was measured.
        level: Of intervals.
        saved_for: See :func:`pytest_specdec.core.judge.judge`.
        of_class: Only requests of one class of prompts count. Counters stay those of all: only times may be read from it.
    """

    def __init__(
        self, comparison: Comparison, level: float, *, saved_for: SavedFor | None = None, of_class: str | None = None
    ) -> None:
        self.comparison = comparison
        self.level = level
        self._saved_for = saved_for
        self._of_class = of_class
        self._latest: tuple[Quantity, Values] | None = None
        self._pairs: dict[RequestQuantity, Pairs] = {}
        self._throughput: dict[Arm, tuple[float | None, ...]] = {}

    @functools.cached_property
    def saved(self) -> Saved:
        """The saved measurement that this one is held against.

        Raises:
            CannotMeasure: There is none under equal conditions, or none was asked for.
        """
        if self._saved_for is None:
            raise nothing_to_compare_with()
        return self._saved_for(self.comparison)

    @functools.cached_property
    def grouped(self) -> bool:
        """Whether rounds were grouped by launch: one arm's, then, on another launch, the other's."""
        placement = self.comparison.placement
        return placement is not None and any(block.grouped for block in placement.blocks)

    @property
    def moments(self) -> str:
        """What the independent units of time are, in words."""
        return "pairs of launches" if self.grouped else "rounds"

    def moment(self, rounds: Ints) -> Ints:
        """The unit of time that each round belongs to.

        It is the round itself where the arms alternate. Where they do not, rounds on the same launches share what those
        launches, and that stretch of time, have of their own; only the next pair of launches is an independent trial.
        """
        if not self.grouped or self.comparison.placement is None:
            return rounds
        starts = np.array([block.first_round for block in self.comparison.placement.blocks])
        return np.searchsorted(starts, rounds, side="right") - 1

    def check_gain_is_told(self) -> None:
        """Gains need a second pair of launches where servers run one after the other.

        Raises:
            CannotMeasure: With one, what the launches and the time between them differ by cannot be told from speculation.
        """
        placement = self.comparison.placement
        if self.grouped and placement is not None and len(placement.blocks) < 2:  # noqa: PLR2004 - one pair has no spread
            raise CannotMeasure(
                "each server was launched once, one after the other: whatever else changed between the two would count as gain",
                remedy="Raise budget_s to at least four times the slower server's start, so that each is launched twice.",
            )

    @functools.cached_property
    def counters(self) -> ServerCounters:
        """The speculating server's counters over all rounds."""
        return pooled_counters(run.counters for run in self.comparison.arm("specdec"))

    @functools.cached_property
    def acceptance(self) -> Acceptance:
        """Acceptance over all rounds, from the counters.

        Raises:
            CannotMeasure: It is not the draft's own, the server does not count drafts, or there were none.
        """
        verification = self.comparison.extra.get("verification")
        if verification:
            raise CannotMeasure(
                f"acceptance is not the draft's own: verification is {verification}",
                remedy="Acceptance objectives need the standard rejection sampler; times can be judged without it.",
            )
        return self.counted_acceptance

    @functools.cached_property
    def counted_acceptance(self) -> Acceptance:
        """The same, be it real or made up.

        Raises:
            CannotMeasure: The server does not count drafts, or there were none.
        """
        if self.counters.drafts is None and self.comparison.foreign_traffic:
            raise CannotMeasure(
                "foreign traffic was allowed, and this client's own streams do not tell which of its steps drafted: its method does "
                "not at every step, or a chunk held several steps",
                remedy="Start the server with --per-request-spec-decode-metrics, keep others away, or judge "
                "min_tokens_per_step and times.",
            )
        if self.counters.drafts is None:
            raise CannotMeasure("the speculating server counts no drafts", remedy="Remove --disable-log-stats.")
        acceptance = acceptance_of(self.counters)
        if not acceptance.drafts:
            raise CannotMeasure(
                "no drafts: nothing was proposed in any round, so acceptance is undefined",
                remedy="The answers hold nothing that the proposer can find again; judge gains only, or another workload.",
            )
        return acceptance

    @functools.cached_property
    def base(self) -> RequestTable:
        """The baseline's requests."""
        return self._table("baseline")

    @functools.cached_property
    def spec(self) -> RequestTable:
        """The speculating server's requests."""
        return self._table("specdec")

    def _table(self, arm: Arm) -> RequestTable:
        runs = self.comparison.arm(arm)
        rows = [run.table.ok & self._chosen(run) for run in runs]
        if not any(row.any() for row in rows):
            raise CannotMeasure(f"no request of the {arm} arm succeeded")

        def joined(values: Callable[[RunTable], NDArray[Any]]) -> NDArray[Any]:
            return np.concatenate([values(run.table)[row] for run, row in zip(runs, rows, strict=True)])

        table = RequestTable(
            round=np.repeat([run.round for run in runs], [row.sum() for row in rows]),
            index=joined(lambda one: one.index),
            prompt=joined(lambda one: one.content),
            tokens=joined(lambda one: one.tokens),
            ttft_s=joined(lambda one: one.ttft_s),
            e2el_s=joined(lambda one: one.e2el_s),
            tpot_s=joined(lambda one: one.tpot_s),
        )
        at_once = table.tpot_s <= 0
        if at_once.sum() > AT_ONCE_SHARE * len(at_once):
            first = int(at_once.argmax())
            raise InvalidMeasurement(
                f"{at_once.sum()} of {len(at_once)} answers of the {arm} arm came with all their tokens in one moment (the first: "
                f"request {table.index[first]}, {table.tokens[first]} tokens), which is no decoding speed",
                remedy="Something between server and client holds the stream back: bypass proxies and buffers.",
            )
        return replace(table, tpot_s=np.where(at_once, np.nan, table.tpot_s))

    def _chosen(self, run: ArmRun) -> NDArray[np.bool_]:
        """The requests of a run that count."""
        if self._of_class is None:
            return np.ones(len(run.samples), dtype=np.bool_)
        of_class: NDArray[np.bool_] = run.table.classes == self._of_class
        return of_class

    def pairs(self, quantity: RequestQuantity) -> Pairs:
        """Requests for which the quantity is defined in both arms, paired by round and place in the plan.

        Raises:
            CannotMeasure: There is none.
        """
        if quantity not in self._pairs:
            self._pairs[quantity] = self._paired(quantity)
        return self._pairs[quantity]

    def _paired(self, quantity: RequestQuantity) -> Pairs:
        base, spec = self.base, self.spec
        base_s, spec_s = getattr(base, f"{quantity}_s"), getattr(spec, f"{quantity}_s")
        width = int(max(base.index.max(), spec.index.max())) + 1
        _, left, right = np.intersect1d(
            base.round * width + base.index, spec.round * width + spec.index, assume_unique=True, return_indices=True
        )
        defined = (base_s[left] > 0) & (spec_s[right] > 0)
        left, right = left[defined], right[defined]
        attempted = max(sum(int(self._chosen(run).sum()) for run in self.comparison.arm(arm)) for arm in ARMS)
        if not len(left):
            raise CannotMeasure(
                f"no request has a {quantity.upper()} in both arms",
                remedy="TPOT needs answers of two tokens or more: raise max_tokens." if quantity == "tpot" else "",
            )
        return Pairs(
            base=base_s[left],
            spec=spec_s[right],
            round=numbered(self.moment(base.round)[left]),
            unit=numbered(self.units(base)[left]),
            excluded=attempted - len(left),
        )

    def values(self, quantity: Quantity) -> Values:
        """A quantity of the speculating server, in seconds, over all rounds.

        Raises:
            CannotMeasure: It is defined for no request, or the server did not say what it needs.
        """
        if self._latest is None or self._latest[0] != quantity:
            self._latest = None  # before the next one is made: those of chunks and tokens are large
            self._latest = quantity, self._pooled(quantity)
        return self._latest[1]

    def _pooled(self, quantity: Quantity) -> Values:
        table = self.spec
        row: NDArray[np.integer]
        if quantity in ("itl", "chunk_gap"):
            value, row = self._chunks.gaps() if quantity == "chunk_gap" else self._chunks_with_tokens.itl()
            excluded = len(table.round) - len(np.unique(row))
        else:
            value = getattr(table, f"{quantity}_s")
            row = np.flatnonzero(~np.isnan(value))
            value, excluded = value[row], len(value) - len(row)
        if not len(value):
            raise CannotMeasure(
                f"no answer of the speculating server has a {quantity.replace('_', ' ')}: all have a single token or chunk",
                remedy="Raise max_tokens.",
            )
        return Values(
            value=value,
            request=row,
            round=numbered(self.moment(table.round)),
            prompt=numbered(table.prompt),
            unit=numbered(self.units(table)),
            excluded=excluded,
        )

    def units(self, table: RequestTable) -> Ints:
        """What resampling takes as one unit of content: the prompt, or the conversation that it is a turn of.

        Under a fresh plan every round has its own prompts; places in the plan then serve, each holding one prompt a round,
        so that the grid stays small. Turns of one conversation may be in several places.
        """
        alone = not (table.prompt < 0).any()
        return table.index if self.comparison.plan_is_fresh and alone else table.prompt

    @property
    def _tables(self) -> list[RunTable]:
        """Of the speculating server's runs."""
        return [run.table for run in self.comparison.arm("specdec")]

    @functools.cached_property
    def _chunks(self) -> ChunkTable:
        return chunks_of_successes(self._tables)

    @functools.cached_property
    def contributions(self) -> Contributions | None:
        """What each prompt contributed to acceptance; None where nothing tells."""
        return contributions(self._stats, numbered(self.units(self.spec)), self._tables, self.counters)

    @functools.cached_property
    def by_request(self) -> Contributions | None:
        """What each request of the speculating server contributed, in their order; None where nothing tells."""
        return contributions(self._stats, np.arange(len(self._stats)), self._tables, self.counters)

    @functools.cached_property
    def _stats(self) -> list[RequestSpecStats | None]:
        return [one for table in self._tables for one, ok in zip(table.column("spec"), table.ok, strict=True) if ok]

    def throughput(self, arm: Arm) -> tuple[float | None, ...]:
        """Tokens per second of each run of an arm; None for one without a steady window, or where another tool kept no times of chunks."""
        if arm not in self._throughput:
            load = self.comparison.load
            if self.comparison.extra.get("chunks") == "untold":
                return tuple(None for _ in self.comparison.arm(arm))
            self._throughput[arm] = tuple(output_throughput(run, load) for run in self.comparison.arm(arm))
        return self._throughput[arm]

    @property
    def _chunks_with_tokens(self) -> ChunkTable:
        if not self._chunks.told:
            raise CannotMeasure(
                "ITL needs the number of tokens in every chunk, and the server sent no token ids",
                remedy="Use chunk_gap_* for smoothness or tpot_* for speed, or a vLLM that knows return_token_ids.",
            )
        return self._chunks
