"""Judge saved results, or two arms that another load generator measured, by any objectives: no server and no GPU is needed."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.commands.columns import columns
from pytest_specdec.commands.history import add_folder
from pytest_specdec.commands.outcome import Blocking
from pytest_specdec.core.errors import CannotMeasure, MarkError, ResultFileError, SpecDecError
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import SavedFor
    from pytest_specdec.core.verdict import Requirement, Verdict


@dataclass(frozen=True)
class Rejudged:
    """One comparison of the file, judged by what the command line asks for."""

    key: str
    comparison: Comparison
    verdicts: tuple[Verdict, ...] = ()
    error: CannotMeasure | None = None
    """Why there is no number to judge."""
    conditions: str = ""
    """Under which it was measured, where the comparison does not know; notes follow."""
    sweep: Mapping[str, Comparison] = field(default_factory=dict)
    """All loads, the lowest first, where they were judged together; ``comparison`` is the one missed first, else the lowest."""

    @property
    def outcomes(self) -> set[str]:
        """Of the verdicts, or ``ERROR``."""
        return {"ERROR"} if self.error else {verdict.outcome for verdict in self.verdicts}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = Path(".specdec/results.json")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help=f"default {default}")
    parser.set_defaults(default_file=default)
    for arm in ("baseline", "specdec"):
        parser.add_argument(
            f"--{arm}",
            action="append",
            metavar="FILE",
            type=Path,
            help="runs of this arm by vllm bench serve, GuideLLM or AIPerf, instead of a saved result; repeatable",
        )
    parser.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an objective as in spec_slo, such as tpot_gain=0.3; mappings as JSON. Repeatable",
    )
    parser.add_argument("--config", metavar="ID", help="only what was measured for this config")
    parser.add_argument(
        "--compare", metavar="RUN", help="what max_regression is held against, as in the command compare"
    )
    add_folder(parser)
    parser.add_argument("--confidence", type=_confidence, metavar="C", help="instead of the session's, such as 0.99")
    parser.add_argument(
        "--unsure", choices=("fail", "pass"), default="fail", help="whether an unsure objective blocks (default fail)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> str:
    """The tables.

    Raises:
        SpecDecError: The file or an objective cannot be used.
        Blocking: An objective is missed (or unsure, or has no number); it carries the tables.
    """
    requirements = requirements_from(arguments.slo)
    if arguments.baseline or arguments.specdec:
        judged = [_judged_arms(arguments, requirements)]
    else:
        judged = _judged_file(arguments, requirements)
    text = json.dumps([_as_data(one) for one in judged], indent=2) if arguments.json else "\n".join(_lines(judged))
    blocking = {"FAIL", "ERROR"} | ({"unsure"} if arguments.unsure == "fail" else set())
    if any(one.outcomes & blocking for one in judged):
        raise Blocking(text, 1)
    return text


def _judged_file(arguments: argparse.Namespace, requirements: Sequence[Requirement]) -> list[Rejudged]:
    from pytest_specdec.core.crossover_verdicts import measured_sweeps
    from pytest_specdec.core.objectives import REGISTRY
    from pytest_specdec.reporting.result_file import read_result

    if not requirements:
        raise SpecDecError("there is nothing to judge by", remedy="Give --slo NAME=VALUE, such as --slo tpot_gain=0.3.")
    path = arguments.file or arguments.default_file
    document = read_result(path)
    chosen = _chosen(document.comparisons, arguments.config, str(path))
    comparisons = {key: _at_confidence(one, arguments.confidence) for key, one in chosen.items()}
    saved_for = _reference(arguments.compare, arguments.history) if arguments.compare else None
    at_one_load = tuple(one for one in requirements if REGISTRY[one.objective].kind != "sweep")
    sweeps = (
        measured_sweeps(comparisons, [gate.points for gate in document.gates if gate.points])
        if at_one_load != requirements
        else []
    )
    alone = {key: one for key, one in comparisons.items() if not any(key in sweep for sweep in sweeps)}
    return [
        *(_judged_sweep(sweep, requirements, saved_for) for sweep in sweeps),
        # Whatever is in none of them has no crossover, and need not have one.
        *(_judged(key, one, at_one_load if sweeps else requirements, saved_for) for key, one in alone.items()),
    ]


def _judged_arms(arguments: argparse.Namespace, requirements: Sequence[Requirement]) -> Rejudged:
    """What other load generators measured; without an objective only the figures."""
    from pytest_specdec.exchange.arm_files import read_arm
    from pytest_specdec.exchange.comparing import comparison_of, conditions_of, judge_arms

    if not (arguments.baseline and arguments.specdec):
        absent = "--specdec" if arguments.baseline else "--baseline"
        raise SpecDecError(f"{absent} is missing", remedy="Two arms make a comparison: --baseline FILE --specdec FILE.")
    if arguments.file or arguments.config:
        raise SpecDecError(
            "a saved result and two arms are two things to judge", remedy="Give FILE, or --baseline and --specdec."
        )
    baseline, specdec = read_arm(arguments.baseline), read_arm(arguments.specdec)
    comparison = _at_confidence(comparison_of(baseline, specdec), arguments.confidence)
    title, conditions = "specdec against baseline", conditions_of(specdec)
    try:
        return Rejudged(title, comparison, judge_arms(comparison, requirements, specdec), conditions=conditions)
    except CannotMeasure as error:
        return Rejudged(title, comparison, error=error, conditions=conditions)


def requirements_from(given: Sequence[str]) -> tuple[Requirement, ...]:
    """What ``--slo NAME=VALUE`` asks for; the last one wins where a name is given twice.

    Raises:
        MarkError: A name or value means nothing.
    """
    from pytest_specdec.core.objectives import REGISTRY, unknown

    found: dict[str, tuple[Requirement, ...]] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise MarkError(f"--slo {text}: must be NAME=VALUE", remedy="Such as --slo tpot_gain=0.3.")
        if name not in REGISTRY:
            raise MarkError(f"--slo: {unknown(name)}")
        try:
            found[name] = REGISTRY[name].parse(_value(value))
        except MarkError as error:
            raise MarkError(f"--slo {error.what}") from None
    return tuple(requirement for some in found.values() for requirement in some)


def _value(text: str) -> object:
    """Numbers and mappings as JSON; keys that are whole numbers are draft positions."""

    def with_positions(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        return {int(key) if key.isdecimal() else key: value for key, value in pairs}

    if text in ("True", "False"):  # as the mark has it
        return text == "True"
    try:
        value: object = json.loads(text, object_pairs_hook=with_positions)
    except (ValueError, RecursionError):
        return text
    return value


def _confidence(text: str) -> float:
    from pytest_specdec.core.load_spec import load_problems

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    problems = load_problems({"confidence": value})
    if problems:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction of at least 0.5 and below 1, such as 0.95")
    return value


def _chosen(comparisons: Mapping[str, Comparison], config_id: str | None, where: str) -> dict[str, Comparison]:
    chosen = {key: one for key, one in comparisons.items() if config_id in (None, one.config_id)}
    if chosen:
        return chosen
    known = sorted({one.config_id for one in comparisons.values()})
    near = did_you_mean(config_id or "", known)
    raise ResultFileError(
        f"holds no measurement of config {config_id!r}" + (f", did you mean {near!r}?" if near else "")
        if known
        else "holds no measurement",
        where=where,
        remedy=f"Its configs: {', '.join(known)}."
        if known
        else "Its gates could not be measured; see `pytest-specdec show`.",
    )


def _reference(what: str, folder: Path) -> SavedFor:
    from pytest_specdec.core.saved import pick
    from pytest_specdec.reporting.history_folder import runs_called

    where, found = runs_called(what, folder, here=Path.cwd())
    runs = list(found)
    return lambda now: pick(now, runs, where=where)


def _judged(
    key: str,
    comparison: Comparison,
    requirements: Sequence[Requirement],
    saved_for: SavedFor | None,
) -> Rejudged:
    from pytest_specdec.core.judge import judge

    try:
        return Rejudged(key, comparison, judge(comparison, requirements, saved_for=saved_for) if requirements else ())
    except CannotMeasure as error:
        return Rejudged(key, comparison, error=error)


def _judged_sweep(
    sweep: Mapping[str, Comparison], requirements: Sequence[Requirement], saved_for: SavedFor | None
) -> Rejudged:
    """As the gate of a sweep judges it: everything at every load, and the crossovers."""
    from pytest_specdec.core.crossover_verdicts import judge_sweep, shown_place
    from pytest_specdec.core.sweep import check_requirement

    keys, points = list(sweep), list(sweep.values())
    try:
        for requirement in requirements:
            check_requirement(requirement, [point.load for point in points])
        verdicts = judge_sweep(points, requirements, saved_for=saved_for)
    except CannotMeasure as error:
        return Rejudged(keys[0], points[0], error=error, sweep=sweep)
    place = shown_place(verdicts, points)
    return Rejudged(keys[place], points[place], verdicts, sweep=sweep)


def _at_confidence(comparison: Comparison, confidence: float | None) -> Comparison:
    return (
        comparison if confidence is None else replace(comparison, load=replace(comparison.load, confidence=confidence))
    )


def _lines(judged: Sequence[Rejudged]) -> list[str]:
    from pytest_specdec.core.summary import summarise
    from pytest_specdec.reporting.layout import fitted
    from pytest_specdec.reporting.measurement import conditions, figure_lines
    from pytest_specdec.reporting.sweep_table import sweep_lines
    from pytest_specdec.reporting.verdict_table import headline, remark_lines, table_lines

    lines: list[str] = []
    for one in judged:
        outcome = headline(one.verdicts) if one.verdicts else "nothing judged"
        title = one.key if not one.sweep else f"{next(iter(one.sweep))}, {len(one.sweep)} loads"
        lines += ["", f"{title}: {f'ERROR: {one.error}' if one.error else outcome}"]
        lines += table_lines(one.verdicts, confidence=one.comparison.load.confidence, width=columns())
        lines += [f"  {line}" for line in remark_lines(one.verdicts)]
        lines += [f"  {line}" for line in ([] if one.error else sweep_lines(list(one.sweep.values()), width=columns()))]
        if one.conditions:
            figures = [] if one.error else figure_lines(summarise(one.comparison))
            lines += [
                f"  {line}" for line in (*figures, one.conditions, *(f"note: {note}" for note in one.comparison.notes))
            ]
        else:
            lines.append(f"  {conditions(one.comparison)}")
    return fitted(lines[1:], columns())


def _as_data(one: Rejudged) -> dict[str, Any]:
    return {
        "comparison": one.key,
        "sweep": list(one.sweep),
        "config_id": one.comparison.config_id,
        "confidence": one.comparison.load.confidence,
        "verdicts": [asdict(verdict) for verdict in one.verdicts],
        "error": str(one.error) if one.error else None,
    }
