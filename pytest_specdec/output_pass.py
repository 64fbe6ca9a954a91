"""The comparison of answers: which passes it still needs, beside the timed rounds, and what the baseline is asked about them.

Answers of the timed rounds are used where their tokens are known. Added are: one pass of each arm one at a time; for the noise
floor, where the load itself is one at a time, a pass of the baseline with several at once; and, for a hard divergence that was
seen once only, the same again.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.answer_pass import ask_arm, ready_arm
from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.output_pairs import Answers, ComparedAnswers, Fork, compared, fork_of, told
from pytest_specdec.core.outputs import OutputPass, Outputs, divergences, tie_margin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.output_pairs import Given
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.asking import Likelihood
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.progress import Progress
    from pytest_specdec.serving.process import Server
    from pytest_specdec.stage import Stage

SEVERAL = 8
"""Requests at once of the noise floor's other pass, where the load is one at a time."""
SPECDEC_FIRST: tuple[Arm, Arm] = ("specdec", "baseline")
"""The baseline is asked about what was found, so where only one server is up at a time it should be the last."""
REPEATED = 1_000_000
"""Passes that repeat a round have its number plus this, which no timed round ever has."""


@dataclass
class OutputMemory:
    """What one measurement has learnt about answers; kept in memory, so that a later look does not ask again."""

    answers: list[Answers] = field(default_factory=list)
    passes: list[OutputPass] = field(default_factory=list)
    likelihoods: dict[Fork, Likelihood] = field(default_factory=dict)
    by_logprobs: bool = False
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Prompts and answers that differ, for a private file; empty unless they were to be kept."""


def compare_outputs(
    measurement: Measurement, stage: Stage, progress: Progress, requirements: Sequence[Requirement], *, keep: bool
) -> Comparison:
    """The comparison with its answers compared, too.

    Args:
        measurement: With at least one round.
        stage: Its servers.
        progress: Told what goes on.
        requirements: The objectives of outputs.
        keep: Whether prompts and answers that differ may be kept.

    Raises:
        CannotMeasure: See :meth:`OutputCheck.run`.
    """
    if measurement.load.temperature > 0:
        from pytest_specdec.sampling_pass import compare_sampled

        return compare_sampled(measurement, stage, progress)
    stated = [nats for one in requirements for name, nats in one.options if name == "tie_margin"]
    check = OutputCheck(measurement, stage, progress, min(stated, default=None))
    measurement.outputs, pairs = check.run()
    if keep:
        from pytest_specdec.kept_outputs import keep_outputs

        measurement.outputs = keep_outputs(measurement, pairs, check)
    return measurement.comparison()


class OutputCheck:
    """Compares the answers of one measurement.

    Args:
        measurement: With at least one round.
        stage: Its servers.
        progress: Told what goes on.
        tie_margin_nats: The smallest that an objective states; None where none does.
    """

    def __init__(
        self, measurement: Measurement, stage: Stage, progress: Progress, tie_margin_nats: float | None
    ) -> None:
        self._measurement = measurement
        self._memory = measurement.output_memory
        self._stage = stage
        self._progress = progress
        self._stated_nats = tie_margin_nats
        self._plans: dict[int, dict[int, PlannedRequest]] = {}

    def run(self) -> tuple[Outputs, tuple[ComparedAnswers, ...]]:
        """What was found, and the answers behind it.

        Raises:
            CannotMeasure: The tokens of the answers cannot be had, requests failed, or a server is gone.
        """
        self._ask_what_is_missing()
        pairs = self._asked(compared(self._answers()))
        if again := self._to_repeat(pairs):
            self._repeat(again)
            pairs = self._asked(compared(self._answers()))
        margin, basis = tie_margin([one.pair for one in pairs])
        load = self._load
        outputs = Outputs(
            pairs=tuple(one.pair for one in pairs),
            under_load=load.describe().partition(" requests ")[2],
            otherwise="one at a time" if not self._is_alone else f"at concurrency {self._several}, in another order",
            tie_margin_nats=margin,
            tie_margin_basis=basis,
            passes=tuple(self._memory.passes),
            source="tokens of logprobs" if self._memory.by_logprobs else "token ids",
        )
        return outputs, pairs

    @property
    def _load(self) -> LoadSpec:
        return self._measurement.load

    @property
    def _is_alone(self) -> bool:
        return self._load.concurrency == 1

    @property
    def _several(self) -> int:
        return min(SEVERAL, self._load.num_requests)

    def _answers(self) -> list[Answers]:
        timed = [Answers(run.arm, "load", run.round, run.samples) for run in self._measurement.runs]
        return [*(one for one in timed if one.complete), *self._memory.answers]

    # -- passes

    def _ask_what_is_missing(self) -> None:
        for arm in SPECDEC_FIRST:
            for given in self._missing(arm):
                self._pass(arm, given, 0, self._plan(given, 0))

    def _missing(self, arm: Arm) -> list[Given]:
        there = {(one.arm, one.given) for one in self._answers()}
        other: list[Given] = ["other"] if arm == "baseline" else []
        wanted: list[Given] = ["load", *(other if self._is_alone else ["alone"])]
        return [given for given in wanted if (arm, given) not in there]

    def _plan(self, given: Given, number: int) -> list[PlannedRequest]:
        plan = list(self._requests(number).values())
        if given == "other":
            random.Random(self._load.seed).shuffle(plan)  # noqa: S311 - an order, not a secret
        return plan

    def _requests(self, number: int) -> dict[int, PlannedRequest]:
        from pytest_specdec.load.arrivals import plan_requests

        measurement = self._measurement
        number = number if measurement.plan_is_fresh else 0
        if number not in self._plans:
            plan = plan_requests(measurement.workload, self._load, round_index=number, fresh=measurement.plan_is_fresh)
            self._plans[number] = {request.index: request for request in plan}
        return self._plans[number]

    def _pass(self, arm: Arm, given: Given, number: int, plan: Sequence[PlannedRequest]) -> None:
        concurrency = {"load": self._load.concurrency, "alone": 1, "other": self._several}[given]
        load = self._load if given == "load" else replace(self._load, concurrency=concurrency, request_rate=None)
        how = f"at concurrency {concurrency}" if concurrency else load.describe().partition(" requests ")[2]
        how = {"alone": "one at a time", "other": f"{how}, in another order"}.get(given, how)
        began = time.monotonic()
        for by_logprobs in dict.fromkeys((self._memory.by_logprobs, True)):
            samples = ask_arm(
                self._measurement,
                self._stage,
                self._progress,
                arm=arm,
                plan=plan,
                load=load,
                what=f"outputs of {arm}, {len(plan)} requests {how}",
                doing="outputs were compared",
                by_logprobs=by_logprobs,
            )
            answers = Answers(arm, given, number, samples)
            if answers.complete:
                self._memory.by_logprobs |= by_logprobs
                break
        else:
            raise InvalidMeasurement(
                f"the {arm} server tells the tokens of its answers neither as token ids nor in logprobs, so outputs cannot be "
                "compared",
                where=str(self._ready(arm).log_path),
                remedy="Connect to vLLM itself: a proxy may drop return_token_ids and logprobs from requests or answers.",
            )
        self._memory.answers.append(answers)
        self._memory.passes.append(OutputPass(arm, how, len(plan), time.monotonic() - began))

    # -- what is seen once

    def _to_repeat(self, pairs: Iterable[ComparedAnswers]) -> list[tuple[Given, int, list[int]]]:
        """Passes that would show whether hard divergences repeat: under which conditions, of which round, which requests."""
        own = [one.pair for one in pairs]
        margin = min(tie_margin(own)[0], self._stated_nats or tie_margin(own)[0])
        unsettled = {one.prompt: one for one in divergences(own, margin) if not one.repeats and not one.tested_again}
        again: dict[tuple[Given, int], list[int]] = {}
        for pair in own:
            divergence = unsettled.get(pair.prompt)
            if divergence and pair.compared == "speculation" and pair.is_hard(margin) and pair.round < REPEATED:
                given: Given = "load" if pair.condition == "load" else "alone"
                again.setdefault((given, pair.round), []).append(pair.index)
        return [(given, number, indexes) for (given, number), indexes in again.items()]

    def _repeat(self, again: Iterable[tuple[Given, int, list[int]]]) -> None:
        """Under load the whole round again, since its company may be the cause; one at a time the requests themselves."""
        for arm in SPECDEC_FIRST:
            for given, number, indexes in again:
                plan = self._plan(given, number)
                plan = plan if given == "load" else [request for request in plan if request.index in indexes]
                self._pass(arm, given, REPEATED + number, plan)

    # -- the baseline's opinion

    def _asked(self, pairs: Iterable[ComparedAnswers]) -> tuple[ComparedAnswers, ...]:
        """The pairs with what the baseline says about the places where they part."""
        from pytest_specdec.load.asking import Place, likelihoods
        from pytest_specdec.rounds import endpoint_of
        from pytest_specdec.serving.process import all_alive

        pairs = tuple(pairs)
        known = self._memory.likelihoods
        new = {fork: one for one in pairs if (fork := fork_of(one)) is not None and fork not in known}
        if new:
            server = self._ready("baseline")
            self._progress.phase(f"{self._measurement.config.id}: asking the baseline about {len(new)} differences")
            places = [Place(self.request_of(one), fork.common, fork.tokens) for fork, one in new.items()]
            answers = likelihoods(
                endpoint_of(server),
                places,
                self._load,
                alive=all_alive(self._stage.up()),
                on_progress=lambda done, total: self._progress.detail(f"{done}/{total}"),
            )
            known.update(zip(new, answers, strict=True))
        return tuple(told(one, lambda fork: _as_told(known[fork])) for one in pairs)

    def request_of(self, one: ComparedAnswers) -> PlannedRequest:
        """What both answers were given to."""
        for number in range(self._measurement.rounds if self._measurement.plan_is_fresh else 1):
            request = self._requests(number).get(one.pair.index)
            if request is not None and request.prompt.index == one.pair.prompt:
                return request
        raise InvalidMeasurement(
            f"prompt {one.pair.prompt} is in no round's plan, so the baseline cannot be asked about it"
        )

    def texts(self, tokens: Sequence[Sequence[int]]) -> tuple[str | None, ...]:
        """Token ids as the baseline reads them."""
        from pytest_specdec.load.asking import texts_of
        from pytest_specdec.rounds import endpoint_of
        from pytest_specdec.serving.process import all_alive

        server = self._ready("baseline")
        return texts_of(endpoint_of(server), tokens, alive=all_alive(self._stage.up()))

    def _ready(self, arm: Arm) -> Server:
        return ready_arm(self._measurement, self._stage, arm)


def _as_told(likelihood: Likelihood) -> tuple[tuple[float, float] | None, bool, str]:
    return likelihood.gaps_nats, likelihood.least, likelihood.unscored
