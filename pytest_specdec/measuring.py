"""One (config, load) measured: blocks of rounds as the placement allows, warm-up of every launch, checks after each run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import DisturbedMeasurement, InvalidMeasurement, RequestsFailed
from pytest_specdec.core.foreign_traffic import ALLOWANCE, NOTE
from pytest_specdec.core.k_choice import SCHEDULE_KEY
from pytest_specdec.core.samples import ARMS, Arm, ArmRun, Comparison, WorkloadRecord
from pytest_specdec.output_pass import OutputMemory

if TYPE_CHECKING:
    from pytest_specdec.core.blocks import Block
    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.course import BlockRecord, WarmUpRecord
    from pytest_specdec.core.distributions import SampledOutputs
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.outputs import Outputs
    from pytest_specdec.core.placement import Placed
    from pytest_specdec.load.workload import Workload
    from pytest_specdec.progress import Progress
    from pytest_specdec.rounds import Warmth
    from pytest_specdec.serving.process import Server
    from pytest_specdec.stage import Stage


MEASURED_AGAIN = 2
"""So many runs of a comparison may be measured again because something disturbed them, or one for every four rounds where that is
more. A machine that hiccups gets by with it; what disturbs every run (a proxy, a client without a core) exceeds it: an error."""


@dataclass
class Measurement:
    """A comparison that can grow by rounds.

    The servers are handed in for every extension: they may have been restarted in between.
    """

    config: SpecConfig
    load: LoadSpec
    workload: Workload
    allow: tuple[str, ...] = ()
    runs: list[ArmRun] = field(default_factory=list)
    servers: dict[str, Server] = field(default_factory=dict)
    """Every launch that was measured, by served name."""
    changes: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    warm_ups: list[WarmUpRecord] = field(default_factory=list)
    warmup_s: float = 0.0
    measured_s: float = 0.0
    """Seconds spent in rounds, for ``budget_s``."""
    switch_s: float = 0.0
    disturbed: int = 0
    """Runs that were not fit to be judged."""
    placed: Placed | None = None
    blocks: list[BlockRecord] = field(default_factory=list)
    device: str | None = None
    self_test: bool = False
    """Both servers are plain ones."""
    outputs: Outputs | None = None
    sampled: SampledOutputs | None = None
    refused: str = ""
    """Why the last attempt to run rounds was given up; empty after one that succeeded."""
    output_memory: OutputMemory = field(default_factory=OutputMemory)
    _plans_spoilt: int = 0
    """Fresh plans that a disturbed run has used up."""

    def __post_init__(self) -> None:
        from pytest_specdec.load.arrivals import plan_notes

        self.notes += [*self.workload.notes, *plan_notes(self.workload, self.load)]
        if self.plan_is_fresh:
            self.notes.append("suffix decoding remembers answers: every round asks prompts that no earlier round asked")
        elif self.config.method == "suffix":
            self.notes.append(
                "suffix decoding ran without its cache of earlier answers (suffix_decoding_max_cached_requests: 0)"
            )
        if self.foreign_traffic:
            self.notes.append(NOTE)

    @property
    def plan_is_fresh(self) -> bool:
        """Whether rounds must not repeat prompts, because the server would replay its own answers."""
        cached = self.config.speculative_config.get("suffix_decoding_max_cached_requests")
        return self.config.method == "suffix" and cached != 0

    @property
    def foreign_traffic(self) -> bool:
        """Whether others may use the servers meanwhile."""
        return ALLOWANCE in self.allow

    @property
    def drafts_each_step(self) -> bool:
        """Whether every decode step of the speculating server is known to draft K tokens."""
        from pytest_specdec.core.validity import SELDOM_DRAFTING

        method, schedule = self.config.method, self.config.speculative_config.get(SCHEDULE_KEY)
        return method is not None and method not in SELDOM_DRAFTING and not schedule

    @property
    def verification(self) -> str | None:
        """``synthetic`` or ``fly`` where drafts are not really verified."""
        from pytest_specdec.core.validity import verification_of

        return verification_of(self.config.speculative_config)

    def refuse_unwanted_verification(self) -> None:
        """Refuse, before any launch, acceptance that is made up or may change outputs, unless it was asked for.

        Raises:
            InvalidMeasurement: It was not.
        """
        kinds = {
            "synthetic": ("synthetic", "acceptance is made up"),
            "fly": ("lossy", "outputs may differ from the target's"),
        }
        if self.verification is None:
            return
        kind, meaning = kinds[self.verification]
        if kind not in self.allow:
            raise InvalidMeasurement(
                f"{self.config.path.name}: rejection_sample_method is {self.verification!r}: {meaning}, so this would not measure what users get",
                remedy=f"To judge times all the same, give --specdec-allow={kind}, or `measure: {{allow: [{kind}]}}` in the config.",
            )
        label = f"{self.verification} verification: {meaning}; only times are judged"
        if label not in self.notes:
            self.notes.append(label)

    @property
    def rounds(self) -> int:
        """Rounds complete in both arms."""
        return len(self.runs) // 2

    def extend(self, stage: Stage, up_to: int, progress: Progress, warm: dict[Warmth, WarmUpRecord]) -> None:
        """Run rounds until there are ``up_to``.

        Args:
            stage: The servers under their placement.
            up_to: Rounds that there shall be.
            progress: Told what goes on.
            warm: What is warm already, such as a baseline that another config has used under the same load; added to.

        Raises:
            WorkloadError: There are too few prompts for so many rounds.
            CannotMeasure: A server did not start or died, requests failed, or a run's numbers must not be believed. The
                incomplete round (block, where rounds are grouped by arm) is dropped, so that a retry starts it again.
        """
        if self.rounds >= up_to:
            return
        if self.plan_is_fresh:
            from pytest_specdec.load.arrivals import plan_requests

            # The last round needs the most: a workload that is too small for it is refused before a server starts.
            plan_requests(self.workload, self.load, round_index=up_to - 1, fresh=True)
        self.placed = stage.placed
        switched_s = stage.switch_s
        try:
            for block in self._blocks(stage, up_to):
                stage.enter(block)
                self._prepare(stage, block, progress, warm)
                self._run_block(stage, block, up_to, progress, warm)
        finally:
            self.switch_s += stage.switch_s - switched_s

    def _blocks(self, stage: Stage, up_to: int) -> tuple[Block, ...]:
        from pytest_specdec.core.blocks import affords_two_launches, plan_blocks

        kind, first, twice = stage.placed.kind, stage.first, True
        if kind == "sequential" and not self.rounds:
            startup_s = stage.ready(first).startup_s
            twice = affords_two_launches(startup_s, self.load.budget_s)
            if not twice:
                self.notes.append(
                    f"each arm was launched once only: four starts of {startup_s:.0f} s are more than budget_s, "
                    f"{self.load.budget_s:.0f} s, so what differs between launches is not seen"
                )
        return plan_blocks(kind, self.rounds, up_to, first=first, twice=twice)

    def _prepare(self, stage: Stage, block: Block, progress: Progress, warm: dict[Warmth, WarmUpRecord]) -> None:
        """Launch and warm both servers before the first round, where that does not cost the first one's life."""
        if stage.placed.both_at_once:
            stage.both()
        if not block.grouped:
            for arm in ARMS:
                self._ready(stage, arm, progress, warm)

    def _ready(self, stage: Stage, arm: Arm, progress: Progress, warm: dict[Warmth, WarmUpRecord]) -> Server:
        """An arm's server, ready to be measured: nothing else under load, and warm under this load."""
        from pytest_specdec.rounds import Warmth, warm_up

        server = stage.ready(arm)
        self.servers.setdefault(server.identity, server)
        warmth = Warmth.of(server, self.load)
        if warmth not in warm:
            progress.phase(f"{self.config.id}: warming up {arm} ({self.load.workload} at {self.load.at})")
            try:
                warm[warmth] = warm_up(server, stage.up(), self.workload, self.load, fresh=self.plan_is_fresh)
            except RequestsFailed as error:  # which knows an address that is gone when this is read
                raise RequestsFailed(error.what, where=str(server.log_path), remedy=error.remedy) from None
            self.warmup_s += warm[warmth].duration_s
            self._note_warm_up(warm[warmth])
        if warm[warmth] not in self.warm_ups:
            self.warm_ups.append(warm[warmth])
        return server

    def _note_warm_up(self, record: WarmUpRecord) -> None:
        if not record.settled:
            tpot = ", ".join("-" if value is None else f"{value * 1000:.1f}" for value in record.tpot_s)
            ttft = ", ".join(f"{value * 1000:.0f}" for value in record.ttft_s)
            self.notes.append(
                f"the warm-up of {record.arm} ended while its figures still changed (TPOT {tpot} ms, TTFT {ttft} ms)"
            )

    def _run_block(
        self, stage: Stage, block: Block, up_to: int, progress: Progress, warm: dict[Warmth, WarmUpRecord]
    ) -> None:
        from pytest_specdec.core.course import BlockRecord
        from pytest_specdec.core.foreign_traffic import own_run
        from pytest_specdec.core.validity import check_run
        from pytest_specdec.rounds import run_once

        steps, complete = list(block.steps), 2 * (block.stop - block.start) if block.grouped else 2
        pending: list[ArmRun] = []
        launches: dict[Arm, int] = {}
        position_of_record = len(self.blocks)
        tries = 1
        while steps:
            index, position, arm = steps[0]
            server = self._ready(stage, arm, progress, warm)
            launches[arm] = server.record.launch
            progress.phase(
                f"{self.config.id}: {self.load.workload} at {self.load.at}, round {index + 1} of {up_to}, {arm}"
                f"{f', try {tries} after a disturbance' if tries > 1 else ''}{self._so_far(up_to, len(pending))}"
            )
            began = time.monotonic()
            run = run_once(
                server,
                stage.up(),
                self.workload,
                self.load,
                own_pids=stage.pids(),
                index=index,
                position=position,
                plan=index + self._plans_spoilt,
                fresh=self.plan_is_fresh,
                progress=progress,
                shared=self.foreign_traffic,
            )
            if self.foreign_traffic:
                run = own_run(run, self.config.num_speculative_tokens, drafts_each_step=self.drafts_each_step)
            try:
                check_run(run, self.comparison())
            except RequestsFailed as error:
                raise RequestsFailed(error.what, where=str(server.log_path), remedy=error.remedy) from None
            except DisturbedMeasurement as error:
                self._measure_again(error, block, up_to)
                tries += 1
                if self.plan_is_fresh:  # neither server may see these prompts again
                    self._plans_spoilt += 1
                    steps[:0] = [(one.round, one.order, one.arm) for one in pending]
                    pending.clear()
                continue
            finally:
                self.measured_s += time.monotonic() - began
            del steps[0]
            tries = 1
            pending.append(run)
            if len(pending) == complete:
                self.runs.extend(pending)
                pending.clear()
                self.blocks[position_of_record:] = [
                    BlockRecord(
                        first_round=block.start,
                        rounds=self.rounds - block.start,
                        order=block.order,
                        grouped=block.grouped,
                        launches=(launches["baseline"], launches["specdec"]),
                        devices=(stage.devices("baseline"), stage.devices("specdec")),
                    )
                ]

    def _measure_again(self, error: DisturbedMeasurement, block: Block, up_to: int) -> None:
        """A disturbed run is kept out and measured again at once, a few times: half a second of a stolen core is no finding.

        Raises:
            DisturbedMeasurement: That happened too often, or there are no prompts for another try.
        """
        from pytest_specdec.load.arrivals import has_spare_plan

        self.disturbed += 1
        no_prompts = self.plan_is_fresh and (
            block.grouped or not has_spare_plan(self.workload, self.load, spoilt=self._plans_spoilt)
        )
        if no_prompts or self.disturbed > max(MEASURED_AGAIN, up_to // 4):
            again = f"; {self.disturbed} runs were disturbed" if self.disturbed > 1 else ""
            raise DisturbedMeasurement(error.what + again, where=error.where, remedy=error.remedy)
        self.notes.append(f"measured again: {error.what}")

    def _so_far(self, up_to: int, pending: int) -> str:
        """`` (TPOT gain 31.0 % so far, about 20 s of rounds left)``; nothing before the first round is complete."""
        from pytest_specdec.core.advice import shown
        from pytest_specdec.core.blocks import tpot_ratio

        if not self.runs:
            return ""
        done = len(self.runs) + pending
        left_s = self.measured_s / done * (2 * up_to - done)
        ratio = tpot_ratio(self.runs)
        gain = "" if ratio is None else f"TPOT gain {shown(1 - ratio, 'fraction')} so far, "
        return f" ({gain}about {left_s:.0f} s of rounds left)"

    def comparison(self) -> Comparison:
        """What has been measured so far, as a record."""
        from pytest_specdec.core.blocks import device_difference, with_gains
        from pytest_specdec.core.course import PlacementRecord, TimeSpent
        from pytest_specdec.core.degenerate import defect_notes
        from pytest_specdec.core.stream_validity import stream_notes

        blocks = with_gains(self.blocks, self.runs)
        notes = list(dict.fromkeys([*self.notes, *filter(None, [device_difference(blocks)])]))
        comparison = Comparison(
            config_id=self.config.id,
            method=self.config.method,
            num_speculative_tokens=self.config.num_speculative_tokens,
            load=self.load,
            workload=WorkloadRecord(
                name=self.load.workload,
                path=str(self.workload.path),
                sha256=self.workload.sha256,
                prompts=len(self.workload.prompts),
                weights=dict(self.workload.weights) if self.workload.weights else None,
            ),
            servers=tuple(server.record for server in self.servers.values()),
            runs=tuple(self.runs),
            warmup_s=self.warmup_s,
            changes=self.changes,
            notes=tuple(notes),
            device=self.device,
            plan_is_fresh=self.plan_is_fresh,
            extra=({"verification": self.verification} if self.verification else {})
            | ({"schedule": str(schedule)} if (schedule := self.config.speculative_config.get(SCHEDULE_KEY)) else {})
            | ({"purpose": "self-test"} if self.self_test else {})
            | ({"traffic": "foreign"} if self.foreign_traffic else {})
            | ({"refused": self.refused} if self.refused else {}),
            placement=PlacementRecord(self.placed.kind, self.placed.reason, blocks) if self.placed else None,
            warm_ups=tuple(self.warm_ups),
            time=TimeSpent(rounds_s=self.measured_s, switch_s=self.switch_s),
            outputs=self.outputs,
            sampled=self.sampled,
        )
        return replace(comparison, notes=(*comparison.notes, *stream_notes(comparison), *defect_notes(comparison)))
