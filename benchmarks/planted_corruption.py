"""Is every kind of corrupted output found, and nothing on clean servers? Twenty models each, with the stand-in server's answers.

    python benchmarks/planted_corruption.py --seeds 20

The stand-in's engine answers without HTTP and without waiting; what judges is what judges a gate. Both servers decide one answer in 50 by
numerics, as real ones do. A wrong token in one of 200 answers can only be found where there is one: such models are counted apart.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.answer_form import form_of
from pytest_specdec.core.distributions import PROMPTS, SAMPLES, TOKENS
from pytest_specdec.core.intervals import wilson
from pytest_specdec.core.lossless import lossless_verdict
from pytest_specdec.core.output_pairs import Answers, compared, told
from pytest_specdec.core.outputs import Outputs, tie_margin
from pytest_specdec.core.sampled_lossless import judge_distributions, sampled_verdict
from pytest_specdec.core.samples import RequestSample
from pytest_specdec.testing.engine import Engine
from pytest_specdec.testing.flags import parse_flags
from pytest_specdec.testing.generation import read_generation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.output_pairs import Fork, Given
    from pytest_specdec.core.samples import Arm

CONFIDENCE = 0.95
MAX_TOKENS = 112
CLEAN: dict[str, Any] = {"numeric_noise": 0.02, "answer_tokens": [70, 100]}
SPECULATION = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'
MAX_LOOP_SHARE = 0.05


@dataclass(frozen=True)
class Case:
    """One defect, and what is to find it."""

    name: str
    knobs: dict[str, Any]
    judge: Callable[[int, dict[str, Any]], str]


class Arms:
    """Both servers of one model."""

    def __init__(self, seed: int, knobs: dict[str, Any]) -> None:
        flags = ["--model", f"model {seed}"]
        data = {**CLEAN, "specdec": knobs}
        self._engines = {
            "baseline": Engine(parse_flags(flags, version="0.26.0"), data),
            "specdec": Engine(parse_flags([*flags, "--speculative-config", SPECULATION], version="0.26.0"), data),
        }

    def answer(self, arm: Arm, prompt: int, *, concurrency: int, **options: Any) -> RequestSample:
        """What an arm says to one prompt beside ``concurrency - 1`` others."""
        engine = self._engines[arm]
        engine._counters[0].running = concurrency - 1  # noqa: SLF001 - the company, without sending it
        body = {"prompt": f"Prompt number {prompt}", "max_tokens": MAX_TOKENS, "temperature": 0, **options}
        asked = read_generation(body, chat=False, launch=engine.launch, speculating=engine.speculating)
        given = engine.begin(asked, engine.next_ordinal())
        return RequestSample(
            index=prompt,
            prompt=prompt,
            category=None,
            due_s=None,
            sent_s=0.0,
            completion_tokens=len(given.tokens),
            finish_reason=given.finish_reason,
            token_ids=given.tokens,
        )

    def gaps(self, fork: Fork) -> tuple[tuple[float, float], bool, str]:
        """What the baseline says about a place where answers part."""
        engine = self._engines["baseline"]
        body = {"prompt": f"Prompt number {fork.prompt}", "max_tokens": MAX_TOKENS, "temperature": 0}
        asked = read_generation(body, chat=False, launch=engine.launch, speculating=False)
        oracle = engine.begin(asked, 0).oracle
        position = len(fork.common)
        best = oracle.best(position, 1)[0][1]
        first, second = (best - oracle.log_probability(position, token) for token in fork.tokens)
        return (first, second), False, ""


def greedy(seed: int, knobs: dict[str, Any], prompts: int = 64) -> str:
    """The verdict of ``lossless=True`` at temperature 0: two rounds at concurrency 8, one pass one at a time."""
    arms = Arms(seed, knobs)
    passes: tuple[tuple[Given, int, int], ...] = (("load", 0, 8), ("load", 1, 8), ("alone", 0, 1))
    answers = [
        Answers(arm, given, number, tuple(arms.answer(arm, n, concurrency=concurrency) for n in range(prompts)))
        for arm in ("baseline", "specdec")
        for given, number, concurrency in passes
    ]
    pairs = tuple(told(one, arms.gaps).pair for one in compared(answers))
    margin, basis = tie_margin(pairs)
    outputs = Outputs(pairs, "at concurrency 8", "one at a time", margin, basis)
    return lossless_verdict(outputs, CONFIDENCE, margin).outcome


def sampled(seed: int, knobs: dict[str, Any]) -> str:
    """The verdict of ``lossless=True`` at temperature 0.8."""
    arms = Arms(seed, knobs)
    answers = {
        arm: {
            prompt: [
                arms.answer(
                    arm, prompt, concurrency=8, temperature=0.8, seed=number * PROMPTS + prompt, max_tokens=TOKENS
                ).token_ids
                or ()
                for number in range(SAMPLES)
            ]
            for prompt in range(PROMPTS)
        }
        for arm in ("specdec", "baseline")
    }
    result = judge_distributions(
        answers["specdec"],
        answers["baseline"],
        tokens=TOKENS,
        confidence=CONFIDENCE,
        temperature=0.8,
        concurrency=8,
    )
    return sampled_verdict(result, CONFIDENCE).outcome


def loops(seed: int, knobs: dict[str, Any]) -> str:
    """The verdict of ``max_loop_share=0.05`` over 100 prompts."""
    arms = Arms(seed, knobs)
    tokens = [arms.answer("specdec", prompt, concurrency=8).token_ids for prompt in range(100)]
    share = sum(form_of("text", each).loops for each in tokens) / len(tokens)
    interval = wilson(share, len(tokens), CONFIDENCE, of="prompts")
    if (interval.high or 1.0) <= MAX_LOOP_SHARE:
        return "ok"
    return "FAIL" if (interval.low or 0.0) > MAX_LOOP_SHARE else "unsure"


def greedy_of_many(seed: int, knobs: dict[str, Any]) -> str:
    """As ``greedy`` over 1000 prompts; ``none planted`` where no answer of this model holds the defect."""
    arms, clean = Arms(seed, knobs | {"numeric_noise": 0}), Arms(seed, {"numeric_noise": 0})
    differ = any(
        arms.answer("specdec", n, concurrency=8).token_ids != clean.answer("specdec", n, concurrency=8).token_ids
        for n in range(1000)
    )
    return greedy(seed, knobs, prompts=1000) if differ else "none planted"


CASES = (
    Case("clean, greedy", {}, greedy),
    Case("clean, sampled at 0.8", {}, sampled),
    Case("clean, loops", {}, loops),
    Case("a wrong token in 1 of 200 answers, 1000 prompts", {"corrupt_output": 0.005}, greedy_of_many),
    Case("a wrong token in 1 of 10 answers", {"corrupt_output": 0.1}, greedy),
    Case("tokens swapped at a draft's border, every fifth answer", {"swap_at_drafts": 0.2}, greedy),
    Case("a sampler 5 pp too sure", {"sampler_bias": 0.05}, sampled),
    Case("a sampler 5 pp too unsure", {"sampler_bias": -0.05}, sampled),
    Case("a wrong token only beside other requests", {"corrupt_output": 0.1, "corrupt_only_concurrent": True}, greedy),
    Case(
        "a loop after position 64, every fourth answer: max_loop_share", {"loop": {"after": 64, "share": 0.25}}, loops
    ),
    Case("a loop after position 64, every fourth answer: lossless", {"loop": {"after": 64, "share": 0.25}}, greedy),
)


def main() -> None:
    """Print one line of JSON per case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    for case in CASES:
        if arguments.only in case.name:
            outcomes = [case.judge(seed, case.knobs) for seed in range(arguments.seeds)]
            print(
                json.dumps({"case": case.name} | {one: outcomes.count(one) for one in sorted(set(outcomes))}),
                flush=True,
            )


if __name__ == "__main__":
    main()
