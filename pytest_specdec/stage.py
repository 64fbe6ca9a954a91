"""One config's two servers under their placement: who is up, who is awake, and on which devices.

Whoever measures asks for an arm's server and gets it ready, the other one out of its way.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import InvalidMeasurement, LaunchError
from pytest_specdec.core.samples import ARMS, Arm
from pytest_specdec.placing import Place, exchanged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytest_specdec.core.blocks import Block
    from pytest_specdec.core.placement import Placed
    from pytest_specdec.launching import ServerSet
    from pytest_specdec.serving.process import Server

_GIVEN_BACK = 0.5
"""Weights and KV cache are most of what a server holds: asleep, it must have given back at least this share of the memory in use."""
_MEMORY_LAG_S = 5.0
_POLL_S = 0.25


class Stage:
    """Keeps the arrangement between measurements of one config.

    Args:
        servers: Launches and ends servers.
        place: Where they go.
        twin: The second server is the baseline's equal, for self-tests.
    """

    def __init__(self, servers: ServerSet, place: Place, *, twin: bool = False) -> None:
        self._servers = servers
        self._place = place
        self._config = place.config
        self._twin = twin
        self._came_up: set[Arm] = set()
        self.switch_s = 0.0
        """Seconds spent in putting servers to sleep and waking them."""

    @property
    def placed(self) -> Placed:
        """The decision."""
        return self._place.placed

    def devices(self, arm: Arm) -> tuple[int, ...]:
        """NVML's indices of an arm's devices at the moment; empty where both share them."""
        return self._place.devices(self._config, arm) if self.placed.kind == "split" else ()

    @property
    def first(self) -> Arm:
        """The arm that can begin without a launch: the one whose server is up; the baseline where both or none is."""
        return "specdec" if self._up("specdec") and not self._up("baseline") else "baseline"

    def enter(self, block: Block) -> None:
        """Make the launches that a block needs impossible to reuse: new ones, or with the devices exchanged."""
        if block.exchanged:
            self._config = exchanged(self._config)
        if block.exchanged or block.renewed:
            self._servers.keep_only(())

    def both(self) -> Mapping[Arm, Server]:
        """Both servers, launched if they are not up, side by side where that is safe; only for placements that have both at once.

        Raises:
            LaunchError: One does not come up.
        """
        starts = self._place.starts_side_by_side and len(self.up()) < len(ARMS)
        if starts:
            self._servers.begin_both(self._config, self._place, twin=self._twin)
        try:
            both = {arm: self.ready(arm) for arm in ARMS}
        except LaunchError as error:
            if not self._servers.measure_instead(self._place, error):
                raise
            return {arm: self.ready(arm) for arm in ARMS}
        if starts:
            self._servers.settle()
        return both

    def ready(self, arm: Arm) -> Server:
        """The arm's server: up, awake, and the only one that may be under load.

        Raises:
            LaunchError: It does not come up, or has no sleep mode.
            InvalidMeasurement: One of the servers does not fall asleep or wake up.
            ServerDied: It was up and is gone.
        """
        kind = self.placed.kind
        keys = {each: self._servers.key(self._config, each, twin=self._twin) for each in ARMS}
        if kind == "sequential":
            self._servers.keep_only((keys[arm],))
        elif self._place.seen:
            self._servers.keep_only(keys.values(), crowded=kind != "together")
        if kind == "swap":
            self._send_to_sleep(keys, but=arm)
        try:
            server = self._servers.launch(self._config, arm, self._place, twin=self._twin)
        except LaunchError as error:
            also_up = {each for each in ARMS if self._up(each)} | self._came_up
            raise with_the_other_side(error, arm, also_up) from None
        self._came_up.add(arm)
        if kind == "swap":
            self._wake(server)
        return server

    def pids(self) -> frozenset[int]:
        """Processes of all servers of the run, those of other configs included: none of them is foreign to the devices."""
        return self._servers.pids()

    def up(self) -> tuple[Server, ...]:
        """Those of the two servers that are up at the moment."""
        return tuple(server for arm in ARMS if (server := self._up(arm)) is not None)

    def _up(self, arm: Arm) -> Server | None:
        return self._servers.running(self._servers.key(self._config, arm, twin=self._twin))

    def _send_to_sleep(self, keys: Mapping[Arm, str], *, but: Arm) -> None:
        from pytest_specdec.serving.sleep import is_asleep, put_to_sleep

        for arm in ARMS:
            server = self._servers.running(keys[arm])
            if arm == but or server is None or is_asleep(server):
                continue
            server.check_alive()
            self._servers.progress.detail(f"putting the {arm} server to sleep")
            began = time.monotonic()
            before_gib = self._servers.machine.memory_used_gib(server.devices)
            put_to_sleep(server)
            self._check_memory(server, before_gib)
            self.switch_s += time.monotonic() - began

    def _wake(self, server: Server) -> None:
        from pytest_specdec.serving.sleep import is_asleep, wake_up

        if not is_asleep(server):
            return
        self._servers.progress.detail(f"waking the {server.arm} server")
        began = time.monotonic()
        wake_up(server)
        self.switch_s += time.monotonic() - began

    def _check_memory(self, server: Server, before_gib: Mapping[int, float]) -> None:
        """Where the memory can be read: a server that says it sleeps and keeps its memory would starve the other one."""
        deadline = time.monotonic() + _MEMORY_LAG_S
        while True:
            now_gib = self._servers.machine.memory_used_gib(tuple(before_gib))
            kept = {
                index: (before, now_gib[index])
                for index, before in before_gib.items()
                if index in now_gib and now_gib[index] > (1 - _GIVEN_BACK) * before
            }
            if not kept:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
        index, (before, now) = next(iter(kept.items()))
        raise InvalidMeasurement(
            f"the {server.arm} server sleeps, and device {index} still has {now:.1f} of {before:.1f} GiB in use",
            where=str(server.log_path),
            remedy="Does something else use the device? Where sleep mode gives back too little, set `placement: sequential`.",
        )


def with_the_other_side(error: LaunchError, arm: Arm, up: Collection[Arm]) -> LaunchError:
    """The error of a server that was launched and did not come up, with what that says about speculation; others as they are.

    Args:
        error: Its own.
        arm: Which of the two it is.
        up: Those of the config's servers that did come up.
    """
    if not error.launched:
        return error
    if arm == "specdec":
        sentence = "the baseline came up, speculation did not" if "baseline" in up else "speculation did not come up"
    elif "specdec" in up:
        sentence = "the speculating server came up, the baseline did not"
    else:
        sentence = "the baseline did not come up, so nothing could be compared"
    told = type(error)(f"{sentence}: {error.what}", where=error.where, remedy=error.remedy)
    told.memory = error.memory
    return told
