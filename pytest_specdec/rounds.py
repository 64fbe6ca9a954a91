"""One server under a load: warmed up, or measured once. This is where serving and load meet: neither knows the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.course import WarmUpRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import ArmRun
    from pytest_specdec.load.client import Endpoint
    from pytest_specdec.load.workload import Workload
    from pytest_specdec.progress import Progress
    from pytest_specdec.serving.process import Server


@dataclass(frozen=True)
class Warmth:
    """A server, and the load it has served: what it compiles depends on how many requests are sampled at once, and how."""

    server: str
    """Its ``identity``."""
    in_flight: int
    sampled: bool

    @classmethod
    def of(cls, server: Server, load: LoadSpec) -> Warmth:
        """What a warm-up of this server under this load makes warm; all arrival rates are warmed alike."""
        from pytest_specdec.load.warmup import in_flight

        return cls(server.identity, in_flight(load), load.temperature > 0)


def endpoint_of(server: Server) -> Endpoint:
    """Where a server's requests go."""
    from pytest_specdec.load.client import Endpoint

    return Endpoint(server.base_url, server.served_name, server.headers)


def warm_up(
    server: Server, others: Iterable[Server], workload: Workload, load: LoadSpec, *, fresh: bool
) -> WarmUpRecord:
    """Send requests like those to be measured until the figures stop drifting; nothing of it is kept.

    Args:
        server: To be warmed.
        others: Servers that must not die meanwhile.
        workload: Where the prompts come from.
        load: That will be measured.
        fresh: The rounds take fresh prompts.

    Raises:
        CannotMeasure: It answers nothing, or a server died.
    """
    from pytest_specdec.load.measure import warm_up as warm
    from pytest_specdec.serving.process import all_alive

    warmed = warm(endpoint_of(server), workload, load, alive=all_alive([server, *others]), fresh=fresh)
    return WarmUpRecord(
        arm=server.arm,
        launch=server.record.launch,
        duration_s=warmed.duration_s,
        requests=warmed.requests,
        tpot_s=tuple(batch.tpot_s for batch in warmed.batches),
        ttft_s=tuple(batch.ttft_s for batch in warmed.batches),
        settled=warmed.settled,
    )


def run_once(
    server: Server,
    up: Iterable[Server],
    workload: Workload,
    load: LoadSpec,
    *,
    own_pids: Collection[int],
    index: int,
    position: int,
    plan: int,
    fresh: bool,
    progress: Progress,
    shared: bool = False,
) -> ArmRun:
    """One arm's half of a round.

    Args:
        server: The arm's; nothing else is under load.
        up: Both servers, as far as they are up; none may die meanwhile.
        workload: Where the prompts come from.
        load: The conditions.
        own_pids: Processes of all our servers; others on the device are foreign.
        index: Number of the round, from 0.
        position: 0 when this arm runs first in its round, else 1.
        plan: Which plan it takes, from 0; the number of the round, unless rounds had to be measured again.
        fresh: The round takes prompts that no earlier one had.
        progress: Told how many requests have ended.
        shared: Others may use the server meanwhile.

    Raises:
        CannotMeasure: See :func:`pytest_specdec.load.measure.run_arm`.
    """
    from pytest_specdec.load.arrivals import plan_requests
    from pytest_specdec.load.measure import run_arm
    from pytest_specdec.serving.device_watch import DeviceWatch
    from pytest_specdec.serving.process import all_alive
    from pytest_specdec.serving.prometheus import difference, parse_scrape, running_requests

    with DeviceWatch(server.devices, own_pids, measured_pids=server.pids()) as watch:
        run = run_arm(
            endpoint_of(server),
            plan_requests(workload, load, round_index=plan, fresh=fresh),
            load,
            arm=server.arm,
            round_index=index,
            order=position,
            alive=all_alive(up),
            on_progress=lambda done, total: progress.detail(f"{done}/{total} requests"),
            read_counters=parse_scrape,
            difference=difference,
            running=running_requests,
            shared=shared,
        )
    return replace(run, devices=watch.summary())
