"""Why an objective was missed, in a sentence or two that the figures support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.class_explain import turning_points
from pytest_specdec.core.output_causes import output_causes
from pytest_specdec.core.summary import summarise
from pytest_specdec.core.validity import SELDOM_DRAFTING, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.acceptance import Acceptance
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary
    from pytest_specdec.core.verdict import Verdict

_MOST_SENTENCES = 2
_SELDOM_ACCEPTED = 0.4
"""First tokens are accepted in 60 to 85 % of the drafts of a draft that fits its target."""
_SELDOM_DRAFTED = 0.5
_WASTED_POSITION = 0.05
_COSTLY_STEP = 1.3
_BUSY_CONCURRENCY = 32


def explain(comparison: Comparison, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """The likeliest causes, the weightiest first, and which mix of classes would turn a verdict, met ones included."""
    turning = tuple(turning_points(comparison, verdicts))
    if all(verdict.outcome == "ok" for verdict in verdicts):
        return turning
    summary = summarise(comparison)
    return (*tuple(_causes(comparison, summary, verdicts))[:_MOST_SENTENCES], *turning)


def _causes(comparison: Comparison, summary: Summary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield from output_causes(comparison, verdicts)
    lookup = comparison.method in SELDOM_DRAFTING
    acceptance = None if made_up(comparison) else summary.acceptance
    schedule = comparison.extra.get("schedule")
    if acceptance is not None:
        yield from _never_accepted(acceptance, lookup=lookup, schedule=schedule)
        yield from _seldom_drafted(comparison, summary)
        yield from _rejected_at_once(acceptance, lookup=lookup)
    yield from _costly_step(comparison, summary, verdicts)
    if acceptance is not None and not schedule:  # which drafts fewer tokens on purpose
        yield from _wasted_tail(acceptance)


def _never_accepted(acceptance: Acceptance, *, lookup: bool, schedule: str | None) -> Iterator[str]:
    if not acceptance.drafts and schedule:
        yield f"Not one step drafted: at this load the schedule says so, {schedule}."
    elif not acceptance.drafts:
        yield "Not one step drafted: the answers hold nothing that the proposer could find again in prompt or answer."
    elif not acceptance.accepted_tokens:
        cause = (
            "what was found again never continued as before"
            if lookup
            else "the prompts may lie beyond the draft's context limit, or the draft belongs to another target"
        )
        yield f"Not one of {acceptance.draft_tokens} drafted tokens was accepted (acceptance length exactly 1): {cause}."


def _seldom_drafted(comparison: Comparison, summary: Summary) -> Iterator[str]:
    coverage = summary.draft_coverage
    if coverage is None or not 0 < coverage < _SELDOM_DRAFTED:
        return
    length = summary.acceptance.acceptance_length if summary.acceptance else None
    yields = (
        f", so an acceptance length of {length:.2f} yields only {summary.tokens_per_step:.2f} tokens per step"
        if length is not None and summary.tokens_per_step is not None
        else ""
    )
    cause = (
        f"; {comparison.method} proposes only where text repeats"
        if comparison.method in SELDOM_DRAFTING
        else "; drafts that break the form that was asked for are dropped before they are verified"
        if _forms_asked(comparison)
        else f"; that is what the schedule says for this load, {comparison.extra['schedule']}"
        if "schedule" in comparison.extra
        else "; something keeps the draft from running, such as a batch size limit"
    )
    yield f"Only {coverage:.0%} of the steps draft at all{yields}{cause}."


def _forms_asked(comparison: Comparison) -> bool:
    """Whether a grammar decided about any of the answers."""
    samples = (sample for run in comparison.arm("specdec") for sample in run.successes)
    return any(sample.form is not None and sample.form.as_asked is not None for sample in samples)


def _rejected_at_once(acceptance: Acceptance, *, lookup: bool) -> Iterator[str]:
    if not acceptance.per_position or not 0 < acceptance.per_position[0] < _SELDOM_ACCEPTED:
        return
    cause = (
        "what repeats in this text seldom continues the same way; a longer prompt_lookup_min makes drafts rarer and better"
        if lookup
        else "the draft seldom agrees with the target. Check that it was trained for this target and that both use one chat template"
    )
    yield f"Most drafts are rejected at their first token (accepted {acceptance.per_position[0]:.0%}): {cause}."


def _costly_step(comparison: Comparison, summary: Summary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    ratio, per_step = summary.step_ratio, summary.tokens_per_step
    missed = [verdict for verdict in verdicts if verdict.outcome != "ok" and _depends_on_speed(verdict)]
    if ratio is None or per_step is None or ratio < _COSTLY_STEP or not missed:
        return
    gains = [one.requirement.required for one in missed if one.requirement.objective == "tpot_gain"]
    wanted = max(gains, default=0.0)
    needed = summary.tokens_per_step_for_gain(wanted)
    if len(gains) == len(missed) and needed is not None and per_step >= needed:
        return  # enough on average: the gain is not proven, and the step is not why
    aim = f"; a gain of {wanted:.0%} needs {needed:.2f}" if wanted > 0 and needed is not None else ""
    concurrency = comparison.load.concurrency
    if concurrency is not None and concurrency >= _BUSY_CONCURRENCY:
        cause = (
            f"At concurrency {concurrency} the device has little compute left for verifying drafts: judge at the load that "
            "matters, or let num_speculative_tokens_per_batch_size draft less when it is busy"
        )
    else:
        cause = "Take a smaller draft, or a lower num_speculative_tokens"
    yield f"A speculative step costs {ratio:.2f} plain steps and yields {per_step:.2f} tokens{aim}. {cause}."


def _depends_on_speed(verdict: Verdict) -> bool:
    name = verdict.requirement.objective
    return name.endswith("_gain") or "throughput" in name or name.startswith(("tpot", "itl", "e2el"))


def _wasted_tail(acceptance: Acceptance) -> Iterator[str]:
    joint = acceptance.per_position or ()
    useful = next((i for i, share in enumerate(joint) if share < _WASTED_POSITION), len(joint))
    if 0 < useful < len(joint):
        last = len(joint) - 1
        which = f"position {useful}" if useful == last else f"positions {useful} to {last}"
        yield (
            f"Draft {which} {'is' if useful == last else 'are'} accepted in less than {_WASTED_POSITION:.0%} of the drafts, which "
            f"costs verification for nothing: try num_speculative_tokens {useful}."
        )
