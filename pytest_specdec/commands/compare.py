"""Two saved runs against each other: every quantity then and now, with the intervals of both."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.commands.columns import columns
from pytest_specdec.commands.history import add_folder
from pytest_specdec.core.errors import ResultFileError, SpecDecError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import Saved


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    words = "a result file, or of the saved runs: last, a name, a commit, a branch"
    parser.add_argument("then", metavar="A", help=f"what to compare with: {words}")
    parser.add_argument("now", metavar="B", help="what is compared: likewise")
    add_folder(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> str:
    """The tables.

    Raises:
        SpecDecError: There is no such run, or the two have nothing under equal conditions.
    """
    from pytest_specdec.reporting.change_table import change_lines, compared
    from pytest_specdec.reporting.layout import fitted

    pairs, refused = [], []
    for now, saved in _matches(arguments):
        if isinstance(saved, SpecDecError):
            refused.append(saved)
        else:
            pairs.append((now, saved))
    if not pairs:
        raise refused[0] if refused else ResultFileError("nothing was measured in it", where=arguments.now)
    if arguments.json:
        data = [
            _as_data(now, saved) | {"changes": [_change(one) for one in compared(now, saved)]} for now, saved in pairs
        ]
        return json.dumps({"compared": data, "refused": [one.what for one in refused]}, indent=2)
    lines = [line for now, saved in pairs for line in (*change_lines(now, saved, width=columns()), "")]
    lines += [f"not compared: {one.what}" for one in refused]
    return "\n".join(fitted(lines, columns())).rstrip()


def _matches(arguments: argparse.Namespace) -> Iterator[tuple[Comparison, Saved | SpecDecError]]:
    from pytest_specdec.core.saved import pick
    from pytest_specdec.reporting.history_folder import runs_called

    where, runs = runs_called(arguments.then, arguments.history, here=Path.cwd())
    reference = list(runs)
    newest = next(runs_called(arguments.now, arguments.history, here=Path.cwd())[1])
    for now in newest.comparisons.values():
        try:
            yield now, pick(now, reference, where=where)
        except SpecDecError as error:
            yield now, error


def _as_data(now: Comparison, saved: Saved) -> dict[str, Any]:
    return {"config_id": now.config_id, "workload": now.workload.name, "load": now.load.at, "against": saved.name}


def _change(one: Any) -> dict[str, Any]:
    known = {name: asdict(getattr(one.change, name)) for name in ("before", "now", "worse")} if one.change else {}
    return {"quantity": one.part, "problem": one.problem or None, "told": one.told or None, **known}
