"""What the fixtures hand to tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.launched import Launched
from pytest_specdec.core.own_objectives import OwnObjective
from pytest_specdec.core.report_section import ReportSection

if TYPE_CHECKING:
    from pytest_specdec.core.class_acceptance import ClassAcceptance
    from pytest_specdec.core.class_mixture import Mixture
    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary
    from pytest_specdec.core.sweep import Crossover
    from pytest_specdec.core.verdict import Estimate, Verdict


__all__ = ["Launched", "OwnObjective", "ReportSection", "SpecComparison", "SpecServers"]


@dataclass(frozen=True)
class SpecComparison:
    """What ``spec_comparison`` hands to a test: everything that was measured, for asserts of your own."""

    config: SpecConfig
    comparison: Comparison
    """Raw samples, counters and servers of both arms."""
    verdicts: tuple[Verdict, ...]
    """The test's own objectives, already judged; a miss fails the test after its body."""
    points: tuple[Comparison, ...] = ()
    """Of a sweep: what was measured at each load, the lowest first; ``comparison`` is the first that missed an objective, and
    the lowest where none did. Empty where there is one load."""

    @property
    def load(self) -> LoadSpec:
        """The conditions under which both arms were measured."""
        return self.comparison.load

    @property
    def summary(self) -> Summary:
        """TPOT, TTFT, throughput of both arms, acceptance, step ratio: the figures below the failure table."""
        from pytest_specdec.core.summary import summarise

        return summarise(self.comparison)

    def crossover(self, gain: str = "tpot_gain") -> Crossover | None:
        """Of a sweep: the load at which ``tpot_gain`` or ``throughput_gain`` is gone, with its interval.

        None where the gain is not defined at every load, such as that of throughput at request rates.
        """
        from pytest_specdec.core.crossover_verdicts import sweep_of

        return sweep_of(self.points or [self.comparison]).crossover(gain)

    @property
    def classes(self) -> tuple[ClassAcceptance, ...]:
        """Acceptance and TPOT gain of each class of prompts, the largest share of the traffic first; empty without classes."""
        from pytest_specdec.core.class_acceptance import by_class

        return by_class(self.comparison)

    @property
    def mixture(self) -> Mixture | None:
        """The classes put together as the traffic has them; None without classes."""
        from pytest_specdec.core.class_mixture import mixture

        return mixture(self.comparison)

    def estimate(self, objective: str, value: object = None) -> Estimate:
        """Any objective's figure with its interval, whether or not the test declares it.

        Args:
            objective: A name that ``spec_slo`` knows, such as ``"tpot_gain"``.
            value: Only for objectives whose value is a mapping, such as ``min_acceptance_at``: the mapping, with one entry.

        Raises:
            CannotMeasure: It is undefined for this comparison.
        """
        from pytest_specdec.core.judge import estimate

        return estimate(self.comparison, objective, value)


@dataclass(frozen=True)
class SpecServers:
    """What ``spec_servers`` hands to a test: both servers, up and ready."""

    baseline_url: str
    """``http://127.0.0.1:PORT``, without ``/v1``."""
    specdec_url: str
    baseline_model: str
    """The name to send as ``model``."""
    specdec_model: str
