"""Objectives as PromQL: the same figures that a canary is judged by, without intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.metric_names import COUNTS, GENERATING, HISTOGRAMS, HTTP_REQUESTS, PER_POSITION
from pytest_specdec.core.objectives import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.verdict import Requirement

_LIMITED = ("ttft", "tpot", "e2el")


class Queries:
    """PromQL over two groups of servers.

    Args:
        baseline: Matchers of the servers without speculation, ``version="stable"``.
        specdec: Of the servers with it.
        window: Over which rates are taken, such as ``10m``.
    """

    def __init__(self, baseline: str, specdec: str, window: str) -> None:
        self.baseline = baseline
        self.specdec = specdec
        self.window = window

    def of(self, requirement: Requirement) -> str | None:
        """The figure that the requirement bounds, in its unit; None where counters do not tell it."""
        name = requirement.objective
        quantity, _, statistic = name.removesuffix("_ms").rpartition("_")
        if name in ("tpot_gain", "ttft_gain"):
            return self.gain(name.removesuffix("_gain"))
        if name.endswith("_ms") and quantity in _LIMITED:
            return self.latency_ms(self.specdec, quantity, statistic)
        if name == "min_acceptance_at":
            reached = self._sum(PER_POSITION, self.specdec, f'position="{requirement.part}"')
            return f"{reached} / {self._count('drafts')}"
        plain: dict[str, Callable[[], str]] = {
            "min_acceptance_length": self.acceptance_length,
            "min_acceptance_rate": lambda: f"{self._count('accepted_tokens')} / {self._count('draft_tokens')}",
            "min_draft_coverage": lambda: f"{self._count('drafts')} / {self._count('decode_steps')}",
            "min_tokens_per_step": self._tokens_per_step,
            "max_failure_share": self._failure_share,
        }
        return plain[name]() if name in plain else None

    def acceptance_length(self) -> str:
        """``1 + accepted / drafts``."""
        return f"1 + {self._count('accepted_tokens')} / {self._count('drafts')}"

    def mean_s(self, matchers: str, quantity: str) -> str:
        """Mean of all requests, in seconds."""
        name = HISTOGRAMS[quantity]
        return f"{self._sum(f'{name}_sum', matchers)} / {self._sum(f'{name}_count', matchers)}"

    def latency_ms(self, matchers: str, quantity: str, statistic: str) -> str:
        """``mean``, or a percentile such as ``p95``, in milliseconds."""
        if statistic == "mean":
            return f"1000 * {self.mean_s(matchers, quantity)}"
        share = int(statistic.removeprefix("p")) / 100
        buckets = f"sum by (le) (rate({HISTOGRAMS[quantity]}_bucket{{{matchers}}}[{self.window}]))"
        return f"1000 * histogram_quantile({share:g}, {buckets})"

    def gain(self, quantity: str) -> str:
        """``1 - mean of the speculating servers / mean of the baseline``."""
        return f"1 - ({self.mean_s(self.specdec, quantity)}) / ({self.mean_s(self.baseline, quantity)})"

    def restarts(self) -> str:
        """How often a speculating server's counters began again."""
        return f"sum(resets({COUNTS['generation_tokens']}{{{self.specdec}}}[{self.window}]))"

    def speculation_gone(self) -> str:
        """There where requests end, but no speculating server drafts any more."""
        return f"{self._count('finished_requests')} > 0 unless {self._count('drafts')} > 0"

    def _tokens_per_step(self) -> str:
        return f"({self._count('generation_tokens')} - {self._count('ttft_count')}) / {self._count('decode_steps')}"

    def _failure_share(self) -> str:
        finished = COUNTS["finished_requests"]
        errors = self._sum(finished, self.specdec, 'finished_reason="error"')
        refused = self._sum(HTTP_REQUESTS, self.specdec, f'handler=~"{GENERATING}",status=~"5.."')
        refused = f"({refused} or vector(0))"
        return f"({errors} + {refused}) / ({self._sum(finished, self.specdec)} + {refused})"

    def _count(self, field: str) -> str:
        return self._sum(COUNTS[field], self.specdec)

    def _sum(self, name: str, matchers: str, further: str = "") -> str:
        chosen = ",".join(filter(None, (matchers, further)))
        return f"sum(rate({name}{{{chosen}}}[{self.window}]))"


def recorded_name(requirement: Requirement) -> str:
    """Of the recording rule: ``specdec:min_acceptance_at:0``."""
    assert requirement.objective in REGISTRY  # noqa: S101 - requirements come from it
    return f"specdec:{requirement.objective}" + (f":{requirement.part}" if requirement.part is not None else "")
