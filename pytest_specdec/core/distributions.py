"""Records of sampled answers' distributions: what was tested and what came out. Never the answers themselves."""

from __future__ import annotations

from dataclasses import dataclass

PROMPTS = 16
SAMPLES = 128
"""Of each prompt on each server."""
TOKENS = 6
"""The first tokens of each answer are compared."""
BIAS = 0.05
"""The bias of the most likely token, as a probability, that a run must be able to see; else a clean result proves nothing."""


@dataclass(frozen=True)
class DistributionTest:
    """One two-sample test."""

    name: str
    """``token 0`` to ``token 5``, ``most likely token``, ``sequences``."""
    p_value: float
    corrected: float
    """After Holm's correction for all tests of the comparison."""


@dataclass(frozen=True)
class TokenShift:
    """How much more often the first arm takes the most likely token than the second one, after the same beginning."""

    value: float
    """Difference of probabilities: 0.05 is five percentage points."""
    standard_error: float
    detectable: float
    """A shift that would be found with a probability of 0.9."""


@dataclass(frozen=True)
class DistributionComparison:
    """Two sets of samples, tested against each other."""

    tests: tuple[DistributionTest, ...]
    shift: TokenShift
    prompts: int
    samples: tuple[int, int]
    """Answers of the first and of the second set."""

    @property
    def least(self) -> DistributionTest:
        """The test that speaks most against equality."""
        return min(self.tests, key=lambda test: (test.corrected, test.p_value))


@dataclass(frozen=True)
class SampledOutputs:
    """What the comparison of sampled answers found."""

    speculation: DistributionComparison
    """The speculating server against the baseline."""
    calibration: DistributionComparison
    """The baseline against itself."""
    temperature: float
    tokens: int
    """So many first tokens of each answer were compared."""
    concurrency: int
    duration_s: float = 0.0
