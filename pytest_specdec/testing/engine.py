"""The stand-in server's engine: admits requests, lets time pass as the knobs say, and counts.

Decode steps follow an absolute schedule: each is due a step after the one before was *due*, so a late wake-up is made
up for and mean TPOT is as set on a busy machine. Steps are counted in scheduled time, before the client sees the tokens.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_specdec.testing.corruption import knobs_of_answer, loops, swapped_at_a_draft
from pytest_specdec.testing.counters import EngineCounters, vllm_families
from pytest_specdec.testing.exposition import Exposition
from pytest_specdec.testing.knobs import Knobs, read_knobs
from pytest_specdec.testing.replies import Emission
from pytest_specdec.testing.simulation import Oracle, Pace, Step, conditional_acceptance, oracle_of, plan_steps
from pytest_specdec.testing.token_choice import share

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pytest_specdec.testing.flags import Launch
    from pytest_specdec.testing.generation import Generation

_DEFAULT_K = 3
_BLOCK_TOKENS = 16
_FOREIGN_TOKENS = 32
_IDLE_S = 0.1


@dataclass
class Answer:
    """One request on its way."""

    asked: Generation
    ordinal: int
    nth: int
    """How often this server has been asked the same by now."""
    engine: int
    oracle: Oracle
    tokens: tuple[int, ...]
    finish_reason: str
    steps: tuple[Step, ...]
    arrived_s: float
    admitted_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    finished: bool = field(default=False)


class Engine:
    """State of one server: knobs, counters, prefix cache, running requests."""

    def __init__(self, launch: Launch, knob_data: dict[str, Any]) -> None:
        self.launch = launch
        self._knob_data = dict(knob_data)
        self.knobs = self._read_knobs(knob_data)
        self.speculating = launch.speculative_config is not None or self.knobs.speculates_on_baseline
        """Whether the server speculates, or at least claims to."""
        self.k = (self.knobs.num_speculative_tokens or launch.configured_k or _DEFAULT_K) if self.speculating else 0
        """Draft positions; 0 without speculation."""
        self._conditional = conditional_acceptance(self.knobs, self.k, launch.speculative_config)
        self.asleep = False
        self._started_s = time.monotonic()
        self._created_unix_s = time.time()
        self._counters = [EngineCounters(positions=self.k) for _ in range(self.knobs.engines)]
        self._slots = asyncio.Semaphore(launch.max_num_seqs)
        self._cached_blocks: set[int] = set()
        self._ordinal = 0
        self._asked: Counter[tuple[tuple[int, ...], int | None]] = Counter()
        self._finished = 0

    @property
    def running(self) -> int:
        """Requests that have been admitted and have not ended."""
        return sum(counters.running for counters in self._counters)

    @property
    def busy(self) -> int:
        """Requests that are running or wait for their turn."""
        return sum(counters.running + counters.waiting for counters in self._counters)

    def _read_knobs(self, data: dict[str, Any]) -> Knobs:
        knobs = read_knobs(data, speculating=self.launch.speculative_config is not None)
        if not self.launch.has_schedule:
            return knobs
        return dataclasses.replace(knobs, step_ratio=knobs.step_ratio * knobs.schedule_ratio)

    def change_knobs(self, update: dict[str, Any]) -> None:
        """Set knobs from now on; engines and K stay as they were at the start.

        Raises:
            KnobError: Nothing was changed.
        """
        data = {**self._knob_data, **update}
        knobs = self._read_knobs(data)
        self._conditional = conditional_acceptance(knobs, self.k, self.launch.speculative_config)
        self.knobs, self._knob_data = knobs, data

    def next_ordinal(self) -> int:
        """Count a generation request as received, from 1."""
        self._ordinal += 1
        return self._ordinal

    def begin(self, asked: Generation, ordinal: int) -> Answer:
        """Decide the whole answer and what every step of it accepts."""
        knobs = knobs_of_answer(self.knobs, prompt=asked.prompt_text, alone=self.busy == 0)
        # What is drawn anew each time follows from the request, and not from which of several came first.
        question = (tuple(asked.prompt_tokens), asked.sampling_seed)
        self._asked[question] += 1
        nth = self._asked[question]
        oracle = oracle_of(
            knobs,
            self.launch.model,
            asked.question,
            asked.sampling_seed,
            temperature=asked.temperature,
            draws="specdec" if self.speculating else "",
            noise_key=f"{self.launch.arm}|{nth}",
        )
        loop = loops(knobs, oracle.identity, oracle.natural_tokens)
        left = max(1, oracle.natural_tokens - asked.answered)
        stops = left <= asked.max_tokens and not asked.ignore_eos and loop is None
        count = left if stops else asked.max_tokens
        rng = random.Random(f"{knobs.seed}|accepted|{oracle.identity}")  # noqa: S311 - a simulation
        steps = self._steps(count, rng)
        positions = range(asked.answered, asked.answered + count)
        tokens = tuple(oracle.token(loop.source(position) if loop else position) for position in positions)
        if share(f"{oracle.identity}|swap") < knobs.swap_at_drafts:
            tokens = swapped_at_a_draft(tokens, steps)
        return Answer(
            asked=asked,
            ordinal=ordinal,
            nth=nth,
            engine=ordinal % len(self._counters),
            oracle=oracle,
            tokens=tokens,
            finish_reason="stop" if stops else "length",
            steps=steps,
            arrived_s=time.monotonic(),
        )

    async def run(self, answer: Answer) -> AsyncGenerator[Emission, None]:
        """Yield the tokens of every step when they are due; the caller closes the iterator if the client goes away."""
        self._of(answer).waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._of(answer).waiting -= 1
        self._of(answer).running += 1
        try:
            async for emission in self._decode(answer):
                yield emission
        finally:
            self._slots.release()
            if not answer.finished:
                self._finish(answer, "abort", sent=0)

    def count_foreign_request(self) -> None:
        """Count a request that no client of this test sent."""
        counters = self._counters[0]
        counters.prompt_tokens += _BLOCK_TOKENS
        counters.generation_tokens += 1
        counters.ttft.observe(self.knobs.ttft_ms / 1000)
        step_s = self.knobs.tpot_ms / 1000
        steps = self._steps(_FOREIGN_TOKENS, random.Random(self._ordinal))  # noqa: S311 - a simulation
        for step in steps:
            counters.count_step(**dataclasses.asdict(step), duration_s=step_s)
        decode_s = len(steps) * step_s
        counters.count_finished(
            "length",
            prompt_tokens=_BLOCK_TOKENS,
            tokens=_FOREIGN_TOKENS,
            decode_s=decode_s,
            e2e_s=self.knobs.ttft_ms / 1000 + decode_s,
        )

    async def foreign_traffic(self) -> None:
        """Run for ever: let counters move on their own, as often as the knob says."""
        due = time.monotonic()
        while True:
            rate = self.knobs.foreign_traffic
            due += 1 / rate if rate else _IDLE_S
            await _until(due)
            if rate:
                self.count_foreign_request()

    def reset_prefix_cache(self) -> bool:
        """Forget all prompts; refused while requests run, as vLLM does."""
        if self.running:
            return False
        self._cached_blocks.clear()
        return True

    def metrics_text(self) -> str:
        """The page behind ``GET /metrics``."""
        page = Exposition(self._created_unix_s)
        page.gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            [({}, self._created_unix_s)],
        )
        if self.launch.log_stats and not self.knobs.disable_log_stats:
            engines = self._counters
            if self.knobs.inconsistent_counters:
                engines = [
                    dataclasses.replace(each, accepted_tokens=each.draft_tokens + each.drafts) for each in engines
                ]
            vllm_families(engines, model_name=self.launch.served_name, asleep=self.asleep, page=page)
        return page.text()

    def _steps(self, tokens: int, rng: random.Random) -> tuple[Step, ...]:
        coverage = 0.0 if self.knobs.no_drafts else self.knobs.draft_coverage
        return plan_steps(tokens, k=self.k, conditional=self._conditional, coverage=coverage, rng=rng)

    async def _decode(self, answer: Answer) -> AsyncGenerator[Emission, None]:
        pace = Pace(
            self.knobs,
            arm=self.launch.arm,
            nth=answer.nth,
            identity=answer.oracle.identity,
            speculating=self.speculating,
        )
        cached = self._look_up_prefix(answer)
        answer.admitted_s = time.monotonic()
        scheduled_s = pace.first_token_s(uptime_s=self._uptime_s(), cached=cached)
        await _until(answer.admitted_s + scheduled_s)
        # Steps count from when the first token really leaves: were it late, making up for it would shorten TPOT.
        due = answer.first_token_s = answer.last_token_s = time.monotonic()
        counters = self._of(answer)
        counters.prompt_tokens += len(answer.asked.prompt_tokens)
        counters.generation_tokens += 1
        counters.ttft.observe(due - answer.arrived_s)
        counters.queue.observe(max(0.0, answer.admitted_s - answer.arrived_s))
        sent = 1
        if not answer.steps:
            self._finish(answer, answer.finish_reason, sent=sent)
        yield Emission(answer.tokens[:1], None if answer.steps else answer.finish_reason, scheduled_s)
        for index, step in enumerate(answer.steps, 1):
            step_s = pace.step_s(uptime_s=self._uptime_s(), running=self.running)
            due += step_s
            scheduled_s += step_s
            await _until(due)
            answer.last_token_s = due
            self._of(answer).count_step(**dataclasses.asdict(step), duration_s=step_s)
            tokens = answer.tokens[sent : sent + step.delivered]
            sent += step.delivered
            last = index == len(answer.steps)
            if last:
                self._finish(answer, answer.finish_reason, sent=sent)
            yield Emission(tokens, answer.finish_reason if last else None, scheduled_s)

    def _finish(self, answer: Answer, reason: str, *, sent: int) -> None:
        answer.finished = True
        counters = self._of(answer)
        counters.running -= 1
        if reason == "abort":
            counters.finished[reason] += 1
            return
        counters.count_finished(
            reason,
            prompt_tokens=len(answer.asked.prompt_tokens),
            tokens=sent,
            decode_s=answer.last_token_s - answer.first_token_s,
            e2e_s=answer.last_token_s - answer.arrived_s,
        )
        self._finished += 1
        if self._finished == self.knobs.reset_counters_after:
            self._created_unix_s = time.time()
            self._counters = [
                EngineCounters(positions=each.positions, running=each.running, waiting=each.waiting)
                for each in self._counters
            ]

    def _look_up_prefix(self, answer: Answer) -> bool:
        """Count the lookup of the prompt's full blocks and store them; whether all of them were there."""
        if not self.launch.prefix_caching:
            return False
        prompt = answer.asked.prompt_tokens
        blocks: list[int] = []
        for end in range(_BLOCK_TOKENS, len(prompt), _BLOCK_TOKENS):
            blocks.append(hash((*blocks[-1:], prompt[end - _BLOCK_TOKENS : end])))
        hits = 0
        while hits < len(blocks) and blocks[hits] in self._cached_blocks:
            hits += 1
        self._cached_blocks.update(blocks)
        counters = self._of(answer)
        counters.prefix_cache_queries += len(prompt)
        counters.prefix_cache_hits += hits * _BLOCK_TOKENS
        return bool(blocks) and hits == len(blocks)

    def _of(self, answer: Answer) -> EngineCounters:
        return self._counters[answer.engine]

    def _uptime_s(self) -> float:
        return time.monotonic() - self._started_s


async def _until(due_s: float) -> None:
    await asyncio.sleep(max(0.0, due_s - time.monotonic()))
