"""Write Prometheus rules and a Grafana dashboard from the objectives of a suite, or from the acceptance procedure's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import SpecDecError

if TYPE_CHECKING:
    import argparse

    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.exchange.prometheus_rules import Watched

RULES_FILE, DASHBOARD_FILE = "specdec-rules.yml", "specdec-dashboard.json"
_LISTING = "pytest_specdec.objective_listing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source",
        metavar="SUITE|CONFIG",
        help="tests whose spec_slo marks count, or a config file: then the acceptance procedure's thresholds do",
    )
    parser.add_argument(
        "--baseline", required=True, metavar="SELECTOR", help="labels of the servers without speculation"
    )
    parser.add_argument("--specdec", required=True, metavar="SELECTOR", help="labels of the servers with speculation")
    parser.add_argument("--window", default="10m", metavar="TIME", help="over which rates are taken (default 10m)")
    parser.add_argument("-k", metavar="EXPRESSION", help="only the tests that pytest's -k chooses")
    parser.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further objective, or another value; repeatable",
    )
    parser.add_argument("--out", default=Path(), type=Path, metavar="DIR", help="where to write (default here)")


def run(arguments: argparse.Namespace) -> str:
    """What was written, and which objectives live traffic does not tell.

    Raises:
        SpecDecError: The source, a selector or an objective cannot be used, or nothing can be watched.
    """
    import yaml

    from pytest_specdec.commands.judge import requirements_from
    from pytest_specdec.exchange.prometheus_rules import Watched, dashboard, rules
    from pytest_specdec.exchange.promql import Queries
    from pytest_specdec.reporting.result_file import replace_file
    from pytest_specdec.serving.prometheus_api import matchers, window_seconds

    window_seconds(arguments.window)
    queries = Queries(matchers(arguments.baseline), matchers(arguments.specdec), arguments.window)
    given = requirements_from(arguments.slo)
    names = {one.objective for one in given}
    declared = [one for one in _declared(arguments.source, arguments.k) if one.requirement.objective not in names]
    watched = [*declared, *(Watched(one, ("--slo",)) for one in given)]
    told = [one for one in watched if queries.of(one.requirement) is not None]
    left_out = [f"left out, as counters do not tell it: {one.requirement.label}" for one in watched if one not in told]
    if not told:
        raise SpecDecError(
            "no objective that live traffic tells",
            where=arguments.source,
            remedy="Name one with --slo, such as --slo min_acceptance_length=1.5."
            + "".join(f"\n  {one}" for one in left_out),
        )
    files = {
        RULES_FILE: yaml.safe_dump(rules(told, queries), sort_keys=False, width=1000),
        DASHBOARD_FILE: json.dumps(dashboard(told, queries), indent=1) + "\n",
    }
    for name, text in files.items():
        replace_file(arguments.out / name, text)
    lines = [f"{one.requirement.label}: {one.requirement.required:g}   ({', '.join(one.sources)})" for one in told]
    return "\n".join([*lines, *dict.fromkeys(left_out), *(f"wrote {arguments.out / name}" for name in files)])


def _declared(source: str, expression: str | None) -> list[Watched]:
    path = Path(source)
    if path.suffix in (".json", ".yaml", ".yml"):
        return _of_procedure(path)
    return _of_suite(source, expression)


def _of_procedure(path: Path) -> list[Watched]:
    from pytest_specdec.core.objectives import REGISTRY
    from pytest_specdec.core.procedure import Procedure
    from pytest_specdec.exchange.prometheus_rules import Watched
    from pytest_specdec.serving.preflight import checked_configs

    checked_configs([path], default_model="any")
    objectives = Procedure().live_objectives
    return [Watched(one, (str(path),)) for name, value in objectives.items() for one in REGISTRY[name].parse(value)]


def _of_suite(suite: str, expression: str | None) -> list[Watched]:
    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.exchange.prometheus_rules import Watched

    tests: dict[Requirement, dict[str, None]] = {}
    for entry in _collected(suite, expression):
        requirement = Requirement(entry["objective"], entry["required"], entry["part"])
        tests.setdefault(requirement, {})[entry["test"]] = None
    return [Watched(requirement, tuple(names)) for requirement, names in tests.items()]


def _collected(suite: str, expression: str | None) -> list[dict[str, Any]]:
    """What the suite's tests declare; collecting them runs their modules, as pytest does."""
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "objectives.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", _LISTING, suite]
        command += ["-k", expression] if expression else []
        done = subprocess.run(  # noqa: S603 - pytest on the user's own suite
            command,
            env={**os.environ, "SPECDEC_OBJECTIVE_LISTING": str(listing)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not listing.exists():
            said = (done.stdout + done.stderr).strip().splitlines()[-15:]
            raise SpecDecError(
                "its tests cannot be collected", where=suite, remedy="pytest says:\n    " + "\n    ".join(said)
            )
        found: list[dict[str, Any]] = json.loads(listing.read_text(encoding="utf-8"))
    if not found:
        raise SpecDecError(
            "no test there has an objective", where=suite, remedy="Mark one with spec_slo, or give --slo."
        )
    return found
