"""What a miss of an objective of outputs means, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_specdec.core.output_rules import OUTPUT_OBJECTIVES
from pytest_specdec.core.outputs import divergences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.outputs import Divergence, Outputs
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Verdict


_LOST_TEMPERATURE = (
    "On a CPU vLLM 0.32.0 does that with every draft: its verification never receives the temperature (docs/sampling-tests.md), so judge "
    "greedy answers there, or sampled ones on a GPU."
)


def output_causes(comparison: Comparison, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A sentence or two where such an objective is not met; nothing otherwise."""
    missed = [one for one in verdicts if one.requirement.objective in OUTPUT_OBJECTIVES and one.outcome != "ok"]
    outputs = comparison.outputs
    if missed and missed[0].outcome == "FAIL" and comparison.sampled is not None:
        yield (
            "The speculating server takes some tokens more often, and others less often, than the target alone: look at the draft's sampling "
            "(draft_sample_method), the rejection sampler, and whether both servers apply temperature, top_p and top_k alike; greedy answers "
            "(temperature=0) may still be right."
        )
        if {server.version for server in comparison.servers} == {"0.32.0"} and re.search(
            r" cores?$", comparison.device or ""
        ):
            yield _LOST_TEMPERATURE
    if not missed or outputs is None:
        return
    stated = dict(missed[0].requirement.options).get("tie_margin")
    found = divergences(outputs.pairs, outputs.tie_margin_nats if stated is None else stated)
    if not found and missed[0].outcome == "unsure":
        yield "Answers differ at near ties only: no token is wrong. Whether there are more of them than numerics explain, more prompts would tell."
        return
    if not found:
        yield (
            "Answers differ at near ties only: no token is wrong, but speculation decides more ties otherwise than another batch does. "
            "Compare attention backends and dtypes of both servers, or state what you accept with min_output_match."
        )
        return
    yield from _hard(found, outputs)
    yield _what_to_do(outputs)


def _hard(found: Sequence[Divergence], outputs: Outputs) -> Iterator[str]:
    repeating = [one for one in found if one.repeats]
    if not repeating:
        yield (
            "An answer once held a token that the target would not have said, and not again: an error that depends on what else "
            "runs, if it is one. More rounds, or a higher concurrency, show how often."
        )
    elif all(one.by == "baseline" for one in repeating):
        yield "It is the baseline that says the unlikely tokens, so look at the baseline before you blame speculation."
    elif all(one.alone[1] and not one.alone[0] for one in repeating):
        yield f"The answers are wrong {outputs.under_load} only, and right one at a time: look at what batching does to drafts."
    else:
        yield "Speculation lets tokens through that the target would not have said, for the same prompts again and again."


def _what_to_do(outputs: Outputs) -> str:
    """Where to go with it."""
    if outputs.kept is not None:
        return f"Report it to vLLM with the request from {outputs.kept}, which shows it on a server with this config."
    return "Run again with --specdec-keep-outputs to get requests that show it, to be reported to vLLM."
