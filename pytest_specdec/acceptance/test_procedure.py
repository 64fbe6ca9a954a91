"""Does speculative decoding pay here? Five steps, and an advice at the end of the run.

Steps 1 and 2 advise and do not fail; what misses a threshold in steps 3, 4 and 5 blocks. Step 5 is for ``--specdec-prometheus``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.acceptance.scenario import classes_of, goal_lines, machine_lines
from pytest_specdec.acceptance.traffic import measured_repetition, proposer_lines
from pytest_specdec.acceptance.words import verdict_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec import SpecComparison
    from pytest_specdec.acceptance.conditions import Conditions
    from pytest_specdec.canary_gates import SpecCanary
    from pytest_specdec.core.config import SpecConfig

    Say = Callable[[str], None]


def test_1_scenario(spec_target: SpecConfig, conditions: Conditions, say: Say, request: pytest.FixtureRequest) -> None:
    """What is speculation to improve, what is asked, and is the machine free to tell?"""
    lines = [*goal_lines(conditions), *classes_of(spec_target, conditions, request), *machine_lines(conditions)]
    for line in lines:
        say(line)


def test_2_proposer(spec_target: SpecConfig, conditions: Conditions, say: Say, request: pytest.FixtureRequest) -> None:
    """Which way to propose tokens suits the target and what it is asked?"""
    repetition, how = measured_repetition(spec_target, conditions, request)
    for line in [how, *proposer_lines(spec_target, repetition, conditions)]:
        say(line)


def test_3_acceptance(spec_comparison: SpecComparison, traffic_class: str, say: Say) -> None:
    """Is enough of what is drafted accepted, for every class of traffic?"""
    say(f"{traffic_class}: {verdict_words(spec_comparison.verdicts)}")


def test_4_load(spec_comparison: SpecComparison, load_point: str, say: Say) -> None:
    """At low load answers must come faster, at high load throughput must hold."""
    say(f"{load_point} load: {verdict_words(spec_comparison.verdicts)}")


@pytest.mark.usefixtures("live_traffic")
def test_5_canary(spec_canary: SpecCanary, say: Say) -> None:
    """The same objectives on live traffic of a canary, from the Prometheus that watches it, before all traffic goes there."""
    say(verdict_words(spec_canary.verdicts))
