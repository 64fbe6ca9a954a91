"""From a test and its judged comparison to what is reported: the record, the failure's table, JUnit's properties."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.screen import width_of

if TYPE_CHECKING:
    from pytest_specdec.core.results import GateOutcome, GateRecord
    from pytest_specdec.judging import Judged
    from pytest_specdec.session import SpecSession


def record_of(
    item: pytest.Item, judged: Judged | None, outcome: GateOutcome, message: str, session: SpecSession
) -> GateRecord:
    """What is kept of a gate; without ``judged`` there was no number."""
    # Late, as below: what explains and sums up needs numpy, and a run with a config may have nothing to judge.
    from pytest_specdec.core.explain import explain
    from pytest_specdec.core.results import GateRecord

    return GateRecord(
        nodeid=item.nodeid,
        config_id=config_id(item),
        comparison=judged.key if judged else None,
        verdicts=judged.verdicts if judged else (),
        outcome=outcome,
        message=message,
        explanation=explain(judged.comparison, judged.here) if judged else (),
        points=tuple(judged.points) if judged else (),
        advice=_advice(judged, session) if judged else "",
    )


def _advice(judged: Judged, session: SpecSession) -> str:
    """Where an objective is missed: what to do, as far as this run has measured."""
    from pytest_specdec.core.recommendation import advice_on

    if all(verdict.outcome != "FAIL" for verdict in judged.verdicts):
        return ""
    return advice_on(judged.comparison, session.comparisons.values(), session.options.procedure.thresholds).text


def table_of(item: pytest.Item, record: GateRecord, judged: Judged, session: SpecSession) -> list[str]:
    """The lines that a failure shows."""
    from pytest_specdec.core.summary import summarise
    from pytest_specdec.reporting.sweep_table import sweep_lines
    from pytest_specdec.reporting.terminal import failure_lines

    config, width = session.config(record.config_id), width_of(item.config)
    return failure_lines(
        record,
        judged.comparison,
        summarise(judged.comparison),
        result_path=relative(session.result_path),
        width=width,
        sweep=sweep_lines(list(judged.points.values()), width=width - 2),
        again=shlex.join(["pytest", *_selecting(item), f"--specdec-config={relative(config.path)}"]),
    )


def _selecting(item: pytest.Item) -> list[str]:
    """Words that run this test alone."""
    if item.path.is_relative_to(item.config.rootpath) or not isinstance(item, pytest.Function):
        return [item.nodeid]
    # A suite that an installed package brings: its node id is no path from here.
    settings = [f"--specdec-acceptance={one}" for one in item.config.getoption("specdec_acceptance") or ()]
    return ["--pyargs", f"{item.module.__name__}::{item.nodeid.partition('::')[2]}", *settings]


def properties_of(judged: Judged) -> list[tuple[str, object]]:
    """For JUnit: one property per objective's figure, verdict and interval."""
    properties: list[tuple[str, object]] = [
        ("specdec.config", judged.comparison.config_id),
        ("specdec.rounds", judged.comparison.rounds),
    ]
    if judged.comparison.foreign_traffic:
        properties.append(("specdec.traffic", "foreign"))
    for verdict in judged.verdicts:
        label = verdict.requirement.label
        properties += [
            (f"specdec.{label}", verdict.estimate.value),
            (f"specdec.{label}.required", verdict.requirement.required),
            (f"specdec.{label}.verdict", verdict.outcome),
        ]
        if verdict.estimate.low is not None:
            properties += [
                (f"specdec.{label}.low", verdict.estimate.low),
                (f"specdec.{label}.high", verdict.estimate.high),
            ]
    return properties


def config_id(item: pytest.Item) -> str:
    """The config that a test is run for; empty when it does not depend on one."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("spec_target", "")) if callspec else ""


def relative(path: os.PathLike[str] | str) -> str:
    """As short as a person can type it."""
    from_here = os.path.relpath(path)
    return str(path) if from_here.startswith("..") else from_here
