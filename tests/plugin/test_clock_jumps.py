"""A wall clock that is set back and forward while a gate runs, as NTP and people do, changes nothing."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

DAY_S = 86_400.0


def test_jumps_of_the_wall_clock_do_not_matter(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_time, jumps = time.time, itertools.cycle([0.0, DAY_S, -DAY_S, 3650 * DAY_S])
    asked = []

    def jumping_time() -> float:
        asked.append(true_time() + next(jumps))
        return asked[-1]

    monkeypatch.setattr(time, "time", jumping_time)
    write_config()
    write_gate("tpot_gain=0.1, min_acceptance_length=1.5")
    result = pytester.runpytest("--specdec-config=fake.json")
    monkeypatch.undo()
    result.assert_outcomes(passed=1)
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert {run.started_unix_s for run in comparison.runs} <= set(asked)  # the dates come from the clock that jumps,
    assert comparison.time is not None
    assert all(0 < run.duration_s < DAY_S / 2 for run in comparison.runs)  # and nothing else does
    assert all(0 < server.startup_s < DAY_S / 2 for server in comparison.servers)
    assert 0 < comparison.time.rounds_s < DAY_S / 2
