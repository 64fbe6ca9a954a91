"""Which way to propose tokens suits a target: what its files, the draft's files and its answers speak for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.draft_facts import shown_kind

if TYPE_CHECKING:
    from pytest_specdec.core.draft_facts import ModelFacts

LOOKUPS = ("ngram", "ngram_gpu", "suffix")
_SMALL = 0.5
"""A draft model with more than this share of the target's layers is no small one."""


def proposer_advice(
    *,
    method: str | None,
    target: ModelFacts | None,
    draft: ModelFacts | None,
    repetition: float | None,
    threshold: float,
) -> list[str]:
    """Lines of advice, the first about the method that the config states.

    Args:
        method: As the config states it.
        target: None where its files are not here.
        draft: None where there is no draft model, or its files are not here.
        repetition: Share of the answers that could be looked up; None where it was not measured.
        threshold: From which share on a lookup is worth a try.
    """
    suits = _suitable(target, draft, repetition, threshold)
    stated = "left to vLLM" if method is None else method
    kinds = {kind for kind, _ in suits}
    kinds |= set(LOOKUPS) if "ngram" in kinds else set()
    lines = [f"method {stated}" + ("" if method is None or method in kinds else ": nothing found here speaks for it")]
    lines += [f"{kind}: {why}" for kind, why in suits]
    if target is None:
        lines.append("the target's files are not here, so whether it has MTP layers of its own is not known")
    if repetition is not None and repetition < threshold and method in LOOKUPS:
        share = f"{100 * repetition:.0f} %"
        lines.append(f"only {share} of the answers' words could be looked up: {method} will seldom draft right")
    return lines


def _suitable(
    target: ModelFacts | None, draft: ModelFacts | None, repetition: float | None, threshold: float
) -> list[tuple[str, str]]:
    suits = []
    if target is not None and target.mtp:
        suits.append(("mtp", f"the target has MTP layers of its own ({target.telling}): no second model is needed"))
    if draft is not None and draft.kind not in ("plain", "mtp"):
        suits.append((draft.kind, f"{draft.name} is {shown_kind(draft.kind)} ({draft.telling})"))
    if draft is not None and draft.kind == "plain":
        suits.append(("draft_model", f"{draft.name} is a model of its own{_family(target, draft)}"))
    if repetition is not None and repetition >= threshold:
        share = f"{100 * repetition:.0f} %"
        suits.append(
            ("ngram", f"{share} of the answers' words could be looked up in prompt and answer; suffix, likewise")
        )
    return suits


def _family(target: ModelFacts | None, draft: ModelFacts) -> str:
    if target is None:
        return ""
    same = target.model_type == draft.model_type and target.vocab_size == draft.vocab_size
    relation = ", of the target's family" if same else ", of another family or vocabulary than the target"
    if target.layers and draft.layers and draft.layers > _SMALL * target.layers:
        return f"{relation}; with {draft.layers} layers against {target.layers} it is hardly small enough to pay"
    return relation
