"""Two measurements under equal conditions as a table: each quantity then and now, and by how much it got worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.regression import UNITS, Change, change_of, figure_text
from pytest_specdec.core.saved import changed_since
from pytest_specdec.core.slo_values import REGRESSIONS
from pytest_specdec.reporting.layout import WIDE, grid

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import Saved
    from pytest_specdec.core.verdict import Estimate

PART_NAMES = {
    "tpot": "TPOT",
    "throughput": "throughput",
    "acceptance_length": "acceptance length",
    "tpot_gain": "TPOT gain",
}


@dataclass(frozen=True)
class Compared:
    """One quantity; without a change there is a reason."""

    part: str
    change: Change | None
    problem: str = ""

    @property
    def told(self) -> str:
        """``worse`` or ``better`` where the interval leaves no doubt, else empty."""
        worse = self.change.worse if self.change else None
        if worse is None or worse.low is None or worse.high is None:
            return ""
        return "worse" if worse.low > 0 else "better" if worse.high < 0 else ""


def compared(now: Comparison, saved: Saved) -> tuple[Compared, ...]:
    """Every quantity that ``max_regression`` knows, at the load's own confidence."""
    evidence = Evidence(now, now.load.confidence)
    found = []
    for part in REGRESSIONS:
        try:
            found.append(Compared(part, change_of(evidence, saved, part)))
        except SpecDecError as error:
            found.append(Compared(part, None, error.what))
    return tuple(found)


def change_lines(now: Comparison, saved: Saved, *, width: int = WIDE) -> list[str]:
    """The table, with what else changed below it."""
    rows = [("", "then", "now", f"worse by ({100 * now.load.confidence:g} % interval)", "")]
    for one in compared(now, saved):
        if one.change is None:
            rows.append((PART_NAMES[one.part], "-", "-", f"undefined: {one.problem}", ""))
            continue
        then, today = (figure_text(figure, UNITS[one.part]) for figure in (one.change.before, one.change.now))
        rows.append((PART_NAMES[one.part], then, today, _worse(one.change.worse, one.part), one.told))
    lines = [
        f"{now.config_id}, {now.workload.name}, {now.load.at}: against {saved.name}",
        *grid(rows, width, fold=3, indent=2),
    ]
    changed = changed_since(now, saved.comparison)
    return [*lines, *(f"  also changed, then against now: {one}" for one in changed)]


def _worse(estimate: Estimate, part: str) -> str:
    unit = "pp" if part == "tpot_gain" else "%"
    if estimate.low is None or estimate.high is None:
        return f"{_signed(estimate.value)} {unit} (unbounded)"
    return f"{_signed(estimate.value)} {unit} ({_signed(estimate.low)} .. {_signed(estimate.high)})"


def _signed(share: float) -> str:
    """Hundredths with their sign; what rounds to nothing has none to speak of, and is no ``-0.0``."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"
