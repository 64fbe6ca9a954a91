"""What one window brought, whichever process sent its requests; and several of them as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.load.answer import read_answer
from pytest_specdec.load.health import LoopHealth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.window import Window


@dataclass(frozen=True)
class Observed:
    """A window whose answers are read. Times of samples count from its start."""

    samples: tuple[RequestSample, ...]
    """In the order of the plan."""
    started_unix_s: float
    last_token_s: float
    """Of any request; 0 where there was no token."""
    last_end_s: float
    """Of any request, however it ended."""
    loop: LoopHealth
    stalled: bool
    disconnected: bool
    """A connection failed."""

    @property
    def duration_s(self) -> float:
        """To the last token chunk; to the end of the last request where there was no token at all."""
        return self.last_token_s or self.last_end_s


def observed(window: Window) -> Observed:
    """Reads the answers."""
    samples = tuple(read_answer(transfer, window_start=window.started) for transfer in window.transfers)
    ends_s = (transfer.ended - window.started for transfer in window.transfers if transfer.ended is not None)
    return Observed(
        samples=samples,
        started_unix_s=window.started_unix_s,
        last_token_s=max((sample.token_times_s[-1] for sample in samples if sample.token_times_s), default=0.0),
        last_end_s=max(ends_s, default=0.0),
        loop=window.loop,
        stalled=window.stalled,
        disconnected=window.disconnected,
    )


def merged(parts: Sequence[Observed]) -> Observed:
    """Parts of one plan, sent at the same time from one start: their requests in the order of the plan, the worst client's health."""
    return Observed(
        samples=tuple(sorted((sample for part in parts for sample in part.samples), key=lambda sample: sample.index)),
        started_unix_s=min(part.started_unix_s for part in parts),
        last_token_s=max(part.last_token_s for part in parts),
        last_end_s=max(part.last_end_s for part in parts),
        loop=LoopHealth(
            max_lag_s=max(part.loop.max_lag_s for part in parts),
            p99_lag_s=max(part.loop.p99_lag_s for part in parts),
            cpu_share=max(part.loop.cpu_share for part in parts),
        ),
        stalled=any(part.stalled for part in parts),
        disconnected=any(part.disconnected for part in parts),
    )
