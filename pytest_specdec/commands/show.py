"""The verdicts and figures of a saved result file, as pytest printed them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.commands.columns import columns

if TYPE_CHECKING:
    import argparse

    from pytest_specdec.core.results import ResultDocument
    from pytest_specdec.core.samples import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = Path(".specdec/results.json")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, default=default, help=f"default {default}")
    parser.add_argument("--json", action="store_true", help="print gates and figures as JSON, without the samples")


def run(arguments: argparse.Namespace) -> str:
    """The tables.

    Raises:
        ResultFileError: The file cannot be read.
    """
    from pytest_specdec.reporting.result_file import read_result

    document = read_result(arguments.file)
    if arguments.json:
        return json.dumps(_as_data(document), indent=2, allow_nan=False)
    return "\n".join(document_lines(document, width=columns()))


def document_lines(document: ResultDocument, *, width: int) -> list[str]:
    """One row per gate, then the table of every gate that was measured, passed ones included; in so many columns."""
    from pytest_specdec.core.summary import summarise
    from pytest_specdec.reporting.added_sections import section_lines
    from pytest_specdec.reporting.layout import fitted
    from pytest_specdec.reporting.sweep_table import sweep_lines
    from pytest_specdec.reporting.terminal import failure_lines, session_lines

    lines = fitted(session_lines(document.gates, document.comparisons, width=width), width) or ["no gate was judged"]
    for gate in document.gates:
        if gate.comparison is not None:
            comparison = document.comparisons[gate.comparison]
            sweep = sweep_lines([document.comparisons[key] for key in gate.points], width=width - 2)
            table = failure_lines(gate, comparison, summarise(comparison), course=True, sweep=sweep, width=width)
            lines += ["", gate.nodeid, *table]
    for section in document.sections:
        lines += ["", section.title, *section_lines(section, width=width)]
    return lines


def _as_data(document: ResultDocument) -> dict[str, Any]:
    from pytest_specdec.core.class_acceptance import by_class
    from pytest_specdec.core.class_mixture import mixture
    from pytest_specdec.core.server_facts import changed_by_vllm, differences_of
    from pytest_specdec.core.summary import summarise

    return {
        "schema_version": document.schema_version,
        "created_unix_s": document.created_unix_s,
        "environment": document.environment,
        "gates": [gate.to_dict() | {"judgement": gate.judgement} for gate in document.gates],
        "comparisons": {
            key: {
                "config_id": comparison.config_id,
                "workload": comparison.workload.name,
                "load": asdict(comparison.load),
                "rounds": comparison.rounds,
                "device": comparison.device,
                "notes": list(comparison.notes),
                "placement": asdict(comparison.placement) if comparison.placement else None,
                "warm_ups": [asdict(record) for record in comparison.warm_ups],
                "time": _time(comparison),
                "changed_by_vllm": {
                    arm: list(sentences) for arm, sentences in changed_by_vllm(comparison.servers).items()
                },
                "differs_besides_speculation": list(differences_of(comparison.servers)),
                "summary": asdict(summarise(comparison)),
                "classes": [asdict(one) for one in by_class(comparison)],
                "mixture": asdict(whole) if (whole := mixture(comparison)) else None,
            }
            for key, comparison in document.comparisons.items()
        },
    }


def _time(comparison: Comparison) -> dict[str, float] | None:
    """Seconds; None in results of versions that did not record them."""
    from pytest_specdec.core.course import start_s

    if comparison.time is None:
        return None
    return {
        "start_s": start_s(comparison.servers),
        "warm_up_s": comparison.warmup_s,
        "switch_s": comparison.time.switch_s,
        "rounds_s": comparison.time.rounds_s,
        "stop_s": sum(server.stop_s or 0.0 for server in comparison.servers),
    }
