"""Saved runs in the order of time: a table, hints at changes of level, and a chart."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.commands.columns import columns
from pytest_specdec.core.errors import ResultFileError, SpecDecError

if TYPE_CHECKING:
    from pytest_specdec.core.trend import Series

_DEFAULT = Path(".specdec/history")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of saved runs."""
    parser.add_argument(
        "--history", metavar="DIR", type=Path, default=_DEFAULT, help=f"where saved runs are (default {_DEFAULT})"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_folder(parser)
    parser.add_argument("--config", metavar="ID", help="only this config")
    parser.add_argument("--branch", metavar="NAME", help="only runs of this branch")
    parser.add_argument("--limit", metavar="N", type=_count, default=50, help="the last N runs (default 50)")
    parser.add_argument("--svg", metavar="PATH", type=Path, help="also draw them, with the intervals")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> str:
    """The tables.

    Raises:
        SpecDecError: There is no saved run, one is damaged, or the chart cannot be made.
    """
    from pytest_specdec.core.trend import series_of
    from pytest_specdec.reporting.history_folder import run_files, stored_run
    from pytest_specdec.reporting.history_table import series_lines
    from pytest_specdec.reporting.layout import fitted

    if arguments.svg is not None:
        _check_matplotlib()
    runs = [stored_run(path) for path in run_files(arguments.history)]
    runs = [one for one in runs if arguments.branch in (None, one.document.environment.get("branch"))]
    series = [one for one in series_of(runs[: arguments.limit]) if arguments.config in (None, one.config_id)]
    if not series:
        wanted = {"config": arguments.config, "branch": arguments.branch}
        of = "".join(f" of {name} {value!r}" for name, value in wanted.items() if value)
        raise ResultFileError(
            f"holds no saved measurement{of}",
            where=str(arguments.history),
            remedy="Save one: pytest ... --specdec-save",
        )
    lines = [line for one in series for line in (*series_lines(one, width=columns()), "")]
    if arguments.svg is not None:
        from pytest_specdec.reporting.result_file import replace_file
        from pytest_specdec.reporting.trend_chart import trend_svg

        replace_file(arguments.svg, trend_svg(series))
        lines.append(f"chart: {arguments.svg}")
    if arguments.json:
        return json.dumps([_as_data(one) for one in series], indent=2)
    return "\n".join(fitted(lines, columns())).rstrip()


def _check_matplotlib() -> None:
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise SpecDecError("the chart needs matplotlib", remedy="Run: pip install 'pytest-specdec[report]'")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs")
    return int(text)


def _as_data(series: Series) -> dict[str, Any]:
    from pytest_specdec.core.slo_values import REGRESSIONS

    changes = {part: found for part in REGRESSIONS if (found := series.change(part)) is not None}
    return asdict(series) | {
        "changes": {part: asdict(change) | {"run": point.when} for part, (point, change) in changes.items()},
        "usual_steps": {part: series.usual_step(part) for part in REGRESSIONS},
    }
