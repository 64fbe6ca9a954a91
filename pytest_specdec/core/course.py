"""How a comparison came about: where its servers ran, in which blocks its rounds were run, how the servers were warmed up."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.samples import ServerRecord

PlacedKind = Literal["together", "swap", "sequential", "split"]
_Arm = Literal["baseline", "specdec"]
# As samples.Arm, which stands above this module.


@dataclass(frozen=True)
class BlockRecord:
    """Rounds that were run on the same two launches of the servers."""

    first_round: int
    """0-based, as ``ArmRun.round``."""
    rounds: int
    order: tuple[_Arm, _Arm]
    """Which arm began: in the first round of the block, or, where rounds are grouped by arm, with all of its rounds."""
    grouped: bool
    """All rounds of one arm, then all of the other's; else the arms alternate round by round."""
    launches: tuple[int, int]
    """Number of the launch of baseline and specdec, from 0."""
    devices: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """NVML's indices of the devices of baseline and specdec; empty where there are none or both share them."""
    tpot_gain: float | None = None
    """Of this block alone, without an interval; None where it is undefined."""


@dataclass(frozen=True)
class PlacementRecord:
    """How the two servers shared the machine, and why so."""

    kind: PlacedKind
    reason: str
    """The end of a sentence that begins with "because"."""
    blocks: tuple[BlockRecord, ...] = ()

    @property
    def sentence(self) -> str:
        """``placement: swap, because ...``."""
        return f"placement: {self.kind}, because {self.reason}"


@dataclass(frozen=True)
class WarmUpRecord:
    """What one server's warm-up took and saw; the batches in their order."""

    arm: _Arm
    launch: int
    duration_s: float
    requests: int
    """In one batch."""
    tpot_s: tuple[float | None, ...]
    """Seconds per token over all tokens of a batch; None where answers were too short to tell."""
    ttft_s: tuple[float, ...]
    """Median of a batch."""
    settled: bool
    """False when the limit came before the figures had settled."""


@dataclass(frozen=True)
class TimeSpent:
    """Seconds that a comparison took, beside the servers' start and stop and the warm-up, which stand elsewhere."""

    rounds_s: float = 0.0
    switch_s: float = 0.0
    """Putting servers to sleep and waking them, with the request that is thrown away afterwards."""


def start_s(servers: Iterable[ServerRecord]) -> float:
    """Seconds spent on all starts; of servers that started side by side the slower one counts."""
    together: dict[int, float] = defaultdict(float)
    alone = 0.0
    for server in servers:
        if server.started_beside:
            together[server.launch] = max(together[server.launch], server.startup_s)
        else:
            alone += server.startup_s
    return alone + sum(together.values())
