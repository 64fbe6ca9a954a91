"""How many load processes a load takes, and which of its requests each of them sends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.load.arrivals import PlannedRequest

CHUNKS_PER_S = 200_000.0
"""What one process reads with time to spare: well below what it was measured to (docs/performance.md)."""
FASTEST_CHUNKS_PER_S = 500.0
"""A stream whose decode steps take 2 ms: faster than servers are."""


@dataclass(frozen=True)
class Share:
    """What one process sends."""

    plan: tuple[PlannedRequest, ...]
    load: LoadSpec
    """The whole load, but for the concurrency, which is the process's own."""


def clients_for(load: LoadSpec, *, cores: int) -> int:
    """Load processes: as stated, or, for ``auto``, as many as the fastest server could keep busy with this load, and cores there are."""
    if load.clients != "auto":
        return load.clients
    if load.request_rate is None:
        chunks_per_s = (load.concurrency or 1) * FASTEST_CHUNKS_PER_S
    else:
        chunks_per_s = load.request_rate * load.max_tokens
    return max(1, min(math.ceil(chunks_per_s / CHUNKS_PER_S), cores))


def shared_out(plan: Sequence[PlannedRequest], load: LoadSpec, clients: int) -> tuple[Share, ...]:
    """The plan shared out by place, and the concurrency with it, so that all shares together are the load; as many as can be used.

    A conversation that continues with the server's own answers counts as one, and stays in one process.
    """
    pieces: list[list[PlannedRequest]] = []
    for request in plan:
        if request.after is None:
            pieces.append([request])
        else:
            pieces[-1].append(request)
    slots = len(pieces) if load.concurrency is None else min(load.concurrency, len(pieces))
    clients = max(1, min(clients, slots))
    # By slots, so that a process with one slot more gets as many more requests.
    mine = [[piece for place, piece in enumerate(pieces) if place % slots % clients == one] for one in range(clients)]
    return tuple(
        Share(
            plan=tuple(request for piece in mine[one] for request in piece),
            load=load
            if load.concurrency is None
            else replace(load, concurrency=len(range(one, load.concurrency, clients))),
        )
        for one in range(clients)
    )
