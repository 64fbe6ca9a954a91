"""What other plugins add through hooks: servers, objectives for marks, notes on measurements, the last word on verdicts, sections of reports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure, LaunchError, MarkError
from pytest_specdec.core.own_objectives import register
from pytest_specdec.core.report_section import ReportSection
from pytest_specdec.gate_records import relative

if TYPE_CHECKING:
    from pytest_specdec.core.launched import Launched
    from pytest_specdec.core.results import ResultDocument
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.judging import Judged
    from pytest_specdec.serving.command import LaunchPlan

REPLACED = "replaced by a plugin (pytest_specdec_replace_verdicts)"


def add_objectives(config: pytest.Config) -> None:
    """Of every plugin, until pytest is done.

    Raises:
        pytest.UsageError: One cannot be meant like that.
    """
    given = config.hook.pytest_specdec_objectives(config=config)
    try:
        config.add_cleanup(register(own for several in given for own in several))
    except MarkError as error:
        raise pytest.UsageError(f"pytest_specdec_objectives: {error}") from None


def changed_command(config: pytest.Config, arm: Arm, argv: tuple[str, ...]) -> tuple[str, ...]:
    """A server's command line as plugins want it."""
    changed = config.hook.pytest_specdec_server_command(config=config, arm=arm, argv=argv)
    return tuple(changed) if changed is not None else argv


def launches_elsewhere(config: pytest.Config) -> bool:
    """Whether a plugin may start servers."""
    return bool(config.hook.pytest_specdec_launch.get_hookimpls())


def launch_elsewhere(config: pytest.Config, plan: LaunchPlan) -> Launched | None:
    """Have a plugin start a server; None where it leaves that to us.

    Raises:
        LaunchError: It could not.
    """
    try:
        launched: Launched | None = config.hook.pytest_specdec_launch(
            config=config,
            arm=plan.arm,
            argv=plan.argv,
            env=dict(plan.env),
            served_name=plan.served_name,
            port=plan.port,
        )
    except Exception as error:
        raise LaunchError(
            f"pytest_specdec_launch could not start the {plan.arm} server: {type(error).__name__}: {error}"
        ) from error
    return launched


def notes_of(config: pytest.Config, comparison: Comparison) -> list[str]:
    """What plugins say about a measurement."""
    given = config.hook.pytest_specdec_notes(config=config, comparison=comparison)
    return [str(note) for notes in given for note in notes or ()]


def last_word(item: pytest.Item, judged: Judged) -> Judged:
    """The verdicts, as far as a plugin replaces them.

    Raises:
        CannotMeasure: It returns others than it was given.
    """
    replaced = item.ihook.pytest_specdec_replace_verdicts(
        item=item, comparison=judged.comparison, verdicts=judged.verdicts
    )
    if replaced is None:
        return judged
    replaced = tuple(replaced)
    if [one.requirement for one in replaced] != [one.requirement for one in judged.verdicts]:
        raise CannotMeasure(
            "pytest_specdec_replace_verdicts must return one verdict for each that it was given, in their order"
        )
    changed = [
        now if now == before else replace(now, advice=REPLACED)
        for now, before in zip(replaced, judged.verdicts, strict=True)
    ]
    return replace(judged, verdicts=tuple(changed))


def sections_of(config: pytest.Config, document: ResultDocument) -> tuple[tuple[ReportSection, ...], list[str]]:
    """What plugins add to the reports, and a line for each plugin that failed to: its own sections are lost, no others."""
    hook, manager = config.hook.pytest_specdec_report_sections, config.pluginmanager
    plugins = [implementation.plugin for implementation in hook.get_hookimpls()]
    sections: list[ReportSection] = []
    troubles = []
    for plugin in plugins:
        own = manager.subset_hook_caller(hook.name, [other for other in plugins if other is not plugin])
        try:
            given = own(config=config, document=document)
            sections += [
                _checked(section)
                for several in given
                for section in ([several] if isinstance(several, ReportSection) else several)
            ]
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - another's code; the run's results stand all the same
            name = manager.get_name(plugin) or type(plugin).__name__
            what = " ".join(f"{type(error).__name__}: {error}".split())
            troubles.append(f"{relative(name) if name.endswith('.py') else name} adds nothing to the report: {what}")
    return tuple(sections), troubles


def _checked(section: object) -> ReportSection:
    if not isinstance(section, ReportSection):
        raise TypeError(f"pytest_specdec_report_sections must return ReportSections, not {section!r}")
    if section.svg:
        from xml.etree import ElementTree as ET

        try:
            root = ET.fromstring(section.svg)  # noqa: S314 - of a plugin, which runs in this process anyway
        except ET.ParseError as error:
            raise ValueError(f"{section.title!r}: its svg is no XML: {error}") from None
        if root.tag != "{http://www.w3.org/2000/svg}svg":
            raise ValueError(f"{section.title!r}: its svg has the root {root.tag!r}, not svg with its xmlns")
    return section
