"""When outputs cannot be held against each other: said before a server starts, and again when results are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.server_flags import options_in, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.verdict import Requirement

OUTPUT_OBJECTIVES = ("lossless", "min_output_match")
_CHANGES_ANSWERS = (
    "chat-template",
    "dtype",
    "generation-config",
    "hf-config-path",
    "hf-overrides",
    "kv-cache-dtype",
    "load-format",
    "logits-processors",
    "override-generation-config",
    "quantization",
    "revision",
    "rope-scaling",
    "rope-theta",
    "tokenizer",
    "tokenizer-mode",
    "tokenizer-revision",
)
"""Flags of one side only with which the two servers are no longer the same model, or sample in another way."""


def split(requirements: Sequence[Requirement]) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
    """Those that the timed rounds decide, and those that need the answers compared."""
    return (
        tuple(one for one in requirements if one.objective not in OUTPUT_OBJECTIVES),
        tuple(one for one in requirements if one.objective in OUTPUT_OBJECTIVES),
    )


def refuse_unfaithful(
    config: SpecConfig,
    load: LoadSpec,
    requirements: Sequence[Requirement],
    *,
    verification: str | None,
    own_answers: bool,
) -> None:
    """Before any launch: refuse objectives of outputs that this config or load could never meet for what they mean.

    Args:
        config: Whose speculation is judged.
        load: The conditions.
        requirements: Of outputs.
        verification: ``synthetic`` or ``fly`` where drafts are not really verified.
        own_answers: Whether conversations continue with what each server itself has said.

    Raises:
        CannotMeasure: With what to change.
    """
    for requirement in requirements:
        check_faithful(verification, load, requirement.objective)
        check_same_model(config.serve_specdec, requirement.objective)
        if own_answers:
            raise CannotMeasure(
                f"{requirement.objective}: the workload's conversations continue with each server's own answers, so that after one "
                "difference both servers are asked other things",
                remedy="Set `multi_turn: recorded` for the workload, or let another workload be judged by it.",
            )


def check_greedy(load: LoadSpec, objective: str) -> None:
    """Answers can be compared token by token only where nothing is drawn by lot.

    Raises:
        CannotMeasure: They are sampled.
    """
    if load.temperature > 0:
        raise CannotMeasure(
            f"{objective} compares answers token by token, and at temperature {load.temperature:g} two runs of one server differ",
            remedy="Set spec_load(temperature=0), or judge lossless=True, which compares the distributions of sampled tokens.",
        )


def check_faithful(verification: str | None, load: LoadSpec, objective: str) -> None:
    """Refuse drafts that are not really verified, and sampled answers where they would have to be equal.

    Raises:
        CannotMeasure: What came out would say nothing about the verification that users get.
    """
    if verification is not None:
        meaning = {
            "synthetic": "accepts drafted tokens by lot, whatever the target says",
            "fly": "is lossy by design: it may accept tokens that the target would not have said",
        }.get(verification, "is not the standard one")
        raise CannotMeasure(
            f"{objective}: rejection_sample_method {verification} {meaning}, so outputs differ from the target's",
            remedy="Output objectives need the standard rejection sampler; times can be judged without it.",
        )
    if objective == "min_output_match":
        check_greedy(load, objective)


def check_same_model(serve_specdec: Mapping[str, Any] | Sequence[str], objective: str) -> None:
    """Refuse flags of one side that change answers by themselves.

    Raises:
        CannotMeasure: There is one.
    """
    found = sorted(set(_CHANGES_ANSWERS) & options_in(words_of(serve_specdec)))
    if found:
        names = ", ".join(f"--{name}" for name in found)
        raise CannotMeasure(
            f"{objective}: the speculating server alone has {names}, which changes what it says whether or not it speculates",
            remedy="Move the flag from serve_specdec to serve, so that both sides have it.",
        )
