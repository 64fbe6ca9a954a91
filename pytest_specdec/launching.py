"""Which servers a config needs, which of them can be shared, and what the plugin sets on them beyond the config."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.samples import ARMS
from pytest_specdec.placing import DEV_MODE, START_UP, must_measure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.launched import Launched
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.placing import Place
    from pytest_specdec.progress import Progress
    from pytest_specdec.serving.command import LaunchPlan
    from pytest_specdec.serving.machine import Machine
    from pytest_specdec.serving.pool import KeptServer, ServerPool
    from pytest_specdec.serving.process import Server
    from pytest_specdec.settings import Attached
    from pytest_specdec.stage import Stage


class ServerSet:
    """The servers of a session. A baseline is shared by all configs whose baseline would be the same.

    Args:
        directory: Under it are the logs.
        progress: Told what is started and awaited.
        change_command: The last word on a server's command line.
        machine: What the servers run on; default: this one.
        attached: Servers to be measured instead of launching any.
        elsewhere: Launches servers that are not on this machine.
        soon: Configs whose servers will be needed later in the run, and may start with the first ones.
        judged: Names of the objectives of the run: some need servers that start alone; known only after the collection.
    """

    def __init__(
        self,
        directory: Path,
        progress: Progress,
        change_command: Callable[[Arm, tuple[str, ...]], tuple[str, ...]],
        machine: Machine | None = None,
        *,
        judged: Callable[[], Collection[str]] = tuple,
        soon: Callable[[], Sequence[SpecConfig]] = tuple,
        attached: Attached | None = None,
        elsewhere: Callable[[LaunchPlan], Launched | None] | None = None,
    ) -> None:
        from pytest_specdec.serving.attached import AttachedPool
        from pytest_specdec.serving.machine import Machine
        from pytest_specdec.serving.pool import ServerPool

        self.progress = progress
        self._judged = judged
        self._too_small = False
        """Servers with a KV cache of the plugin's choice did not come up."""
        self._soon = soon
        self.machine = machine or Machine()
        self._change_command = change_command
        self.devices = () if attached or elsewhere else self.machine.devices()
        self._attached = attached
        self._elsewhere = elsewhere
        self._pool = (
            # It has all of a pool's methods that are called here.
            cast("ServerPool", AttachedPool(attached.urls, attached.headers))
            if attached
            else ServerPool(
                directory,
                progress.detail,
                waiting=progress.phase,
                devices=[device.index for device in self.devices],
                elsewhere=elsewhere,
            )
        )
        self._places: dict[str, Place] = {}
        self._stages: dict[tuple[str, bool], Stage] = {}
        self._together: set[str] = set()
        """Servers for which there is room at once, so that none of them need end for another one."""

    @property
    def device(self) -> str:
        """What the servers run on, in words."""
        from pytest_specdec.serving.gpu import describe

        if self._attached or self._elsewhere:
            return "servers that something else started"
        return describe(self.devices) if self.devices else str(self.machine.host())

    def place(self, config: SpecConfig) -> Place:
        """Where a config's servers go; decided once.

        Raises:
            LaunchError: The placement that the config names cannot work here, or the model does not fit.
        """
        from pytest_specdec.placing import place, untouched

        if config.id not in self._places:
            if self._attached:
                self._places[config.id] = untouched(config, "both servers run already (--specdec-attach)")
            elif self._elsewhere:
                self._places[config.id] = untouched(config, "a plugin launches the servers (pytest_specdec_launch)")
            else:
                self._places[config.id] = place(config, self.machine)
        return self._places[config.id]

    def forget(self, config: SpecConfig) -> None:
        """Decide anew, when it is asked for again, where the servers of the config with this id go and how they are started."""
        self._places.pop(config.id, None)
        for twin in (False, True):
            self._stages.pop((config.id, twin), None)

    def stage(self, config: SpecConfig, *, twin: bool = False) -> Stage:
        """The config's two servers; none is started by asking for them.

        Args:
            config: Whose speculation is compared with the baseline.
            twin: Compare the baseline with its equal instead.

        Raises:
            LaunchError: As :meth:`place`.
        """
        from pytest_specdec.stage import Stage

        key = (config.id, twin)
        if key not in self._stages:
            self._stages[key] = Stage(self, self.place(config), twin=twin)
        return self._stages[key]

    def both(self, config: SpecConfig) -> dict[Arm, Server]:
        """Both servers of a config, up at once, for whoever sends requests of their own.

        Raises:
            LaunchError: One does not come up, or the placement never has both up at once.
        """
        placed = self.place(config).placed
        if not placed.both_at_once:
            raise LaunchError(
                f"spec_servers hands out both servers at once, and {placed.sentence}",
                where=config.where("placement"),
                remedy="Set `placement: together` or `split` in a config for this test.",
            )
        return dict(self.stage(config).both())

    def key(self, config: SpecConfig, arm: Arm, *, twin: bool = False) -> str:
        """By which a server of a config with a decided placement is known; equal keys share a server."""
        from pytest_specdec.serving.command import baseline_key

        if arm == "specdec" and not twin:
            return f"specdec {config.id}"
        return f"{'twin' if arm == 'specdec' else 'baseline'} {baseline_key(config)}"

    def running(self, key: str) -> Server | None:
        """The server of that key, if it is up."""
        return self._pool.running(key)

    def pids(self) -> frozenset[int]:
        """Processes of all our servers on this machine."""
        return self._pool.pids()

    def keep_only(self, keys: Collection[str], *, crowded: bool = True) -> None:
        """End every other server; unless it is ``crowded``, not those that started with one of these."""
        self._pool.close_others(keys if crowded or self._together.isdisjoint(keys) else self._together | {*keys})

    def launch(self, config: SpecConfig, arm: Arm, place: Place, *, twin: bool = False) -> Server:
        """A server, started if it is not up.

        Args:
            config: ``place.config``, or with the devices exchanged.
            arm: Which of the two.
            place: Where they go.
            twin: For ``specdec``: a second plain server.

        Raises:
            LaunchError: It does not come up, or vLLM is not installed.
            ServerDied: It has been up and is gone.
        """
        return self._pool.acquire(**self._wanted(config, arm, place, twin=twin))

    def begin_both(self, config: SpecConfig, place: Place, *, twin: bool = False) -> None:
        """Start both servers without waiting, unless each has to start alone; :meth:`launch` waits for each.

        Those of later configs start with them where the memory of all is known and there is room. Whoever measures then
        waits for all of them (:meth:`settle`): a server that starts would slow down one that is measured.

        Raises:
            LaunchError: vLLM is not installed, or the devices do not become free.
        """
        if START_UP in self._judged() or (place.own_kv and self._measured):
            return
        for arm in ARMS:
            self._pool.begin(**self._wanted(config, arm, place, twin=twin))
        if not twin and place.placed.kind == "together":
            self._begin_later_ones(place)

    def measure_instead(self, place: Place, error: LaunchError) -> bool:
        """Whether servers that could not start are to be started again, one after the other, with KV caches as large as vLLM finds room for.

        So it is where memory was the reason, and the plugin had chosen the size of the caches.
        """
        if not (place.own_kv and error.memory) or self._measured:
            return False
        self._too_small = True
        self.keep_only(())
        self._pool.forgive_memory()
        self.progress.phase(
            f"{place.config.id}: {error.what.splitlines()[0]}; starting again, one after the other, so that vLLM finds out how large a KV cache can be"
        )
        return True

    @property
    def _measured(self) -> bool:
        """Whether vLLM finds out how large a KV cache can be, even where the plugin could choose."""
        return self._too_small or must_measure(self._judged())

    def settle(self) -> None:
        """Wait for every server that was begun; one that failed beside the others is launched again when it is needed."""
        self._pool.settle()

    def _begin_later_ones(self, first: Place) -> None:
        from pytest_specdec.core.start_ahead import chosen

        devices = first.devices(first.config, "baseline")
        later = [place for config in self._soon() if (place := self._beside(config, devices)) is not None]
        if not first.needs_gib or not later:
            return
        room_gib = min(device.memory_total_gib for device in first.seen if device.index in devices)
        self._together = chosen(self._needs_gib(first), [self._needs_gib(place) for place in later], room_gib)
        for place in later:
            for arm in ARMS:
                if self.key(place.config, arm) in self._together:
                    self._pool.begin(**self._wanted(place.config, arm, place, twin=False))

    def _beside(self, config: SpecConfig, devices: tuple[int, ...]) -> Place | None:
        """Where a later config's servers go, if they can be up with others on these devices."""
        try:
            place = self.place(config)
        except LaunchError:  # said when it is its turn
            return None
        fits = place.placed.kind == "together" and place.starts_side_by_side and place.needs_gib
        return place if fits and all(place.devices(place.config, arm) == devices for arm in ARMS) else None

    def _needs_gib(self, place: Place) -> dict[str, float]:
        return {self.key(place.config, arm): gib for arm, gib in place.needs_gib.items()}

    def _wanted(self, config: SpecConfig, arm: Arm, place: Place, *, twin: bool) -> dict[str, Any]:
        """A server, as the pool takes it."""
        second = twin and arm == "specdec"

        def plan(port: int, served_name: str) -> LaunchPlan:
            which = "a second baseline" if second else f"the {arm}"
            self.progress.phase(f"{config.id}: starting {which} server ({masked_text(config.model)})")
            planned = self._plan(config, "baseline" if second else arm, place, port, served_name)
            return replace(planned, arm=arm)

        return {
            "key": self.key(config, arm, twin=twin),
            "plan_factory": plan,
            "folder": "self-test" if second else config.id if arm == "specdec" else "baseline",
            "devices": place.devices(config, arm),
            "startup_timeout_s": config.startup_timeout_s,
        }

    def changes(self, config: SpecConfig) -> tuple[str, ...]:
        """What is set beyond the config, in words; what only one side has says so."""
        if self._attached:
            return ()
        place = self.place(config)
        plain = self._plan(place.config, "baseline", place, 0, "").changes
        speculating = self._plan(place.config, "specdec", place, 0, "").changes
        alone = [f"on the baseline's side only: {change}" for change in plain if change not in speculating]
        alone += [f"on the speculating side only: {change}" for change in speculating if change not in plain]
        own = _per_request(config)
        alone += [f"on the speculating side only: {' '.join(own)}"] if own else []
        return (*(change for change in plain if change in speculating), *alone)

    def release(self, config: SpecConfig) -> None:
        """End the config's speculating server."""
        self._pool.close(self.key(config, "specdec"))

    def keep(self) -> list[KeptServer]:
        """Leave those that are up as they are."""
        return self._pool.keep_all()

    def close(self) -> None:
        """End them all."""
        self._pool.close_all()

    def _plan(self, config: SpecConfig, arm: Arm, place: Place, port: int, served_name: str) -> LaunchPlan:
        from pytest_specdec.serving.command import plan_launch

        plan = plan_launch(
            config,
            arm,
            port=port,
            served_name=served_name,
            extra_flags=place.flags(arm, measured=self._measured),
            extra_env={DEV_MODE: "1"},
        )
        argv = (*plan.argv, *_per_request(config)) if arm == "specdec" else plan.argv
        return replace(plan, argv=self._change_command(arm, argv))


def _per_request(config: SpecConfig) -> tuple[str, ...]:
    """For the speculating server: with each answer's own acceptance, intervals need no guess about who accepted what."""
    from pytest_specdec.core.server_flags import PER_REQUEST, SINCE
    from pytest_specdec.core.vllm_versions import at_least
    from pytest_specdec.serving.command import command_of, has_flag
    from pytest_specdec.serving.versions import version_of

    option = f"--{PER_REQUEST}"
    known = at_least(version_of(command_of(config)), SINCE[PER_REQUEST])
    return (option, "detailed") if known and not has_flag(config, option) else ()
