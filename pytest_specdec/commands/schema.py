"""The JSON Schema of a config or of a result file, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kind", choices=("config", "results"), help="which file the schema describes")


def run(arguments: argparse.Namespace) -> str:
    """The schema."""
    if arguments.kind == "config":
        from pytest_specdec.core.config import config_json_schema

        return json.dumps(config_json_schema(), indent=2)
    from pytest_specdec.core.results import results_json_schema

    return json.dumps(results_json_schema(), indent=2)
