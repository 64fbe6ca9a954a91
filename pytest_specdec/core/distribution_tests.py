"""Do two servers draw their tokens from the same distribution? Two-sample tests on the first tokens of many sampled answers.

Speculation keeps the target's distribution, not its draws: verification spends random numbers in another way, so that the
same seed gives another answer. Three kinds of tests look at different things:

- per position, Pearson's chi-squared of token by arm within each prompt, rare tokens merged, summed over the prompts;
- over all positions, whether one arm takes the most likely token more often after the same beginning (Cochran-Mantel-Haenszel,
  one stratum per prompt and beginning): a sampler that is too sharp or too flat shifts all positions the same way;
- a permutation test of whole sequences: the maximum mean discrepancy with the length of the common beginning as the kernel
  (Gretton et al., JMLR 13 (2012) 723), arms permuted within each prompt.

Under equality each is exact or asymptotically so, given the pooled samples. Holm's correction holds for all of them together.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from pytest_specdec.core.distributions import DistributionComparison, DistributionTest, TokenShift
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import SEED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Tokens = NDArray[np.int64]
    Samples = Mapping[int, Sequence[Sequence[int]]]
    """Prompt to the token ids of its answers."""

PERMUTATIONS = 999
POWER = 0.9
_MIN_EXPECTED = 5.0
"""In each cell of a table of tokens by arm: the usual bound for the chi-squared approximation."""
_MIN_STRATUM = 8
"""Smaller strata hardly know which token is the most likely one."""
_ENDED = -1


def compare_distributions(
    first: Samples, second: Samples, *, tokens: int, alpha: float, permutations: int = PERMUTATIONS
) -> DistributionComparison:
    """Test two sets of samples against each other.

    Args:
        first: Of the arm in question, by prompt.
        second: Of the reference, with the same prompts.
        tokens: How many first tokens of each answer to look at; shorter answers have ended.
        alpha: The level at which a corrected p-value will count, for the detectable shift.
        permutations: Of the test of sequences.

    Raises:
        CannotMeasure: There is no prompt with at least two answers on both sides.
    """
    prompts = sorted(
        prompt for prompt in first.keys() & second.keys() if min(len(first[prompt]), len(second[prompt])) > 1
    )
    if not prompts:
        raise CannotMeasure(
            "no prompt has two sampled answers on both servers, so there are no distributions to compare"
        )
    pairs = [(_matrix(first[prompt], tokens), _matrix(second[prompt], tokens)) for prompt in prompts]
    p_values = {f"token {position}": _chi_squared(pairs, position) for position in range(tokens)}
    count = len(p_values) + 2
    z, value, error = _most_likely(pairs)
    p_values["most likely token"] = float(special.erfc(abs(z) / math.sqrt(2)))
    p_values["sequences"] = _sequences(pairs, permutations)
    needed = float(special.ndtri(1 - alpha / (2 * count)) + special.ndtri(POWER))
    corrected = holm(list(p_values.values()))
    return DistributionComparison(
        tests=tuple(
            DistributionTest(name, p_value, adjusted)
            for (name, p_value), adjusted in zip(p_values.items(), corrected, strict=True)
        ),
        shift=TokenShift(value, error, needed * error),
        prompts=len(prompts),
        samples=(sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected p-values (Holm, Scandinavian Journal of Statistics 6 (1979) 65), in the order given."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def _matrix(answers: Sequence[Sequence[int]], tokens: int) -> Tokens:
    """Answers by position, filled up with :data:`_ENDED`."""
    matrix = np.full((len(answers), tokens), _ENDED, dtype=np.int64)
    for row, answer in enumerate(answers):
        known = list(answer[:tokens])
        matrix[row, : len(known)] = known
    return matrix


def _chi_squared(pairs: Sequence[tuple[Tokens, Tokens]], position: int) -> float:
    """The p-value of Pearson's statistic, summed over prompts; 1 where every prompt has but one token left after merging."""
    statistic, freedom = 0.0, 0
    for first, second in pairs:
        table = _merged(first[:, position], second[:, position])
        if table.shape[1] > 1:
            expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
            statistic += float(((table - expected) ** 2 / expected).sum())
            freedom += table.shape[1] - 1
    return float(special.chdtrc(freedom, statistic)) if freedom else 1.0


def _merged(first: Tokens, second: Tokens) -> NDArray[np.float64]:
    """Counts, arms by tokens, the rarest tokens in one column until each cell expects enough."""
    _, inverse = np.unique(np.concatenate([first, second]), return_inverse=True)
    table: NDArray[Any] = np.stack(
        [np.bincount(part, minlength=inverse.max() + 1) for part in np.split(inverse, [len(first)])]
    )
    table = table[:, np.argsort(-table.sum(axis=0), kind="stable")].astype(np.float64)
    total = len(first) + len(second)
    least = _MIN_EXPECTED * total / min(len(first), len(second))
    kept = int((table.sum(axis=0) >= least).sum())
    rest = table[:, kept:].sum(axis=1, keepdims=True)
    if rest.sum() == 0:
        return table
    if rest.sum() < least and kept:
        table[:, kept - 1 : kept] += rest
        return table[:, :kept]
    return np.hstack([table[:, :kept], rest])


def _most_likely(pairs: Sequence[tuple[Tokens, Tokens]]) -> tuple[float, float, float]:
    """The z of the Cochran-Mantel-Haenszel test, the pooled difference of probabilities, and its standard error.

    The pooled sample says which token is the most likely one of a stratum, so that the arms are exchangeable given it.
    """
    excess = variance = weight = 0.0
    for first, second in pairs:
        strata = [(list(range(len(first))), list(range(len(second))))]
        for position in range(first.shape[1]):
            deeper = []
            for rows, others in strata:
                a, b = Counter(first[rows, position].tolist()), Counter(second[others, position].tolist())
                total, ours = len(rows) + len(others), len(rows)
                token, hits = max((a + b).items(), key=lambda each: (each[1], -each[0]))
                share = ours * len(others) / total
                excess += a[token] - hits * ours / total
                variance += hits * (total - hits) * share / (total * (total - 1))
                weight += share
                for value in a.keys() & b.keys() - {_ENDED}:
                    one = [row for row in rows if first[row, position] == value]
                    other = [row for row in others if second[row, position] == value]
                    if len(one) + len(other) >= _MIN_STRATUM:
                        deeper.append((one, other))
            strata = deeper
    if variance == 0:
        return 0.0, 0.0, 0.0
    return excess / math.sqrt(variance), excess / weight, math.sqrt(variance) / weight


def _sequences(pairs: Sequence[tuple[Tokens, Tokens]], permutations: int) -> float:
    """The p-value of the permutation test."""
    rng = np.random.default_rng(SEED)
    statistics = np.zeros(permutations + 1)
    for first, second in pairs:
        rows = np.vstack([first, second])
        same = np.cumprod(rows[:, None, :] == rows[None, :, :], axis=2, dtype=np.float32)
        kernel = same.mean(axis=2)
        np.fill_diagonal(kernel, 0.0)
        weights = np.concatenate([np.full(len(first), 1 / len(first)), np.full(len(second), -1 / len(second))])
        drawn = np.vstack([weights, rng.permuted(np.tile(weights, (permutations, 1)), axis=1)]).astype(np.float32)
        statistics += np.einsum("pi,pi->p", drawn @ kernel, drawn)
    # Float noise must not make a permutation that is the same partition look smaller.
    above = int((statistics[1:] >= statistics[0] - 1e-6).sum())
    return (1 + above) / (permutations + 1)
