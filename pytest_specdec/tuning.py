"""``--specdec-tune``: measures two Ks, predicts the others, and measures what it recommends before it recommends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.k_advice import Advice, Predicted, Tuning
    from pytest_specdec.core.k_choice import KChoice
    from pytest_specdec.core.k_measured import MeasuredK
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate
    from pytest_specdec.session import SpecSession

_MOST_MEASURED = 4
"""Two to begin with, and as many looks at what the predictions recommend."""


def choice_of(config: SpecConfig) -> KChoice:
    """Which Ks a config could have, as far as its models lie in local folders."""
    from pytest_specdec.core.k_choice import k_choice
    from pytest_specdec.serving.model_folder import read_model

    draft = config.speculative_config.get("model")
    return k_choice(
        config.speculative_config,
        config.num_speculative_tokens,
        read_model(draft, config.folder) if isinstance(draft, str) else None,
        read_model(config.model, config.folder),
    )


def probes_of(config: SpecConfig) -> list[SpecConfig]:
    """What is measured first, the config's own K before the smallest; empty where there is nothing to choose."""
    from pytest_specdec.core.k_choice import config_with_k

    choice = choice_of(config)
    if not choice.candidates:
        return []
    return [config_with_k(config, k) for k in reversed(choice.probes(config.num_speculative_tokens))]


def tune(session: SpecSession, config: SpecConfig, load: LoadSpec, *, test_dir: Path) -> Tuning:
    """Measure, predict, verify.

    Args:
        session: Whose servers are used; all Ks share one baseline.
        config: Whose K is looked for.
        load: The conditions.
        test_dir: Where a workload's relative path is looked for.

    Raises:
        CannotMeasure: The method has no K, or one of the Ks cannot be measured.
    """
    from pytest_specdec.core.duel import beaten
    from pytest_specdec.core.judge import estimate
    from pytest_specdec.core.k_advice import Tuning, advise
    from pytest_specdec.core.k_choice import config_with_k, with_k
    from pytest_specdec.core.k_measured import measured_k

    choice = choice_of(config)
    if not choice.candidates:
        raise CannotMeasure(choice.refusal)
    measured: list[MeasuredK] = []
    comparisons: dict[int, Comparison] = {}
    gains: dict[int, Estimate] = {}
    foretold: dict[int, Predicted] = {}

    def measure(k: int) -> None:
        of_k = config_with_k(config, k)
        try:
            comparison = session.judge(of_k, (load,), (), test_dir=test_dir).comparison
        finally:
            session.release(of_k)
        measured.append(measured_k(comparison))
        comparisons[k] = comparison
        gains[k] = estimate(comparison, "tpot_gain")

    def advice_among(candidates: Sequence[int]) -> Advice:
        behind = beaten(list(comparisons.values()))
        ks = [k for k, one in comparisons.items() if one.config_id in behind]
        return advise(measured, candidates, load.confidence, beaten=ks)

    for k in reversed(choice.probes(config.num_speculative_tokens)):
        measure(k)
    while True:
        advice = advice_among(choice.candidates)
        wanted = advice.recommended
        if wanted is None or wanted in gains or len(measured) == _MOST_MEASURED:
            break
        foretold[wanted] = advice.of(wanted)
        measure(wanted)
    if advice.recommended is not None and advice.recommended not in gains:
        # Looked at as often as is reasonable: what was measured is known, what was not is not recommended.
        advice = advice_among([one.k for one in measured])
    line = {} if advice.recommended is None else with_k(config.speculative_config, advice.recommended)
    return Tuning(advice, choice, gains, foretold, line)
