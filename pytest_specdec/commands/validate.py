"""Everything that can be said about a config before a server starts: keys, values, models, flags, for one version of vLLM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.commands.outcome import Blocking
from pytest_specdec.core.errors import Finding, SpecDecError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.vllm_versions import Versions

_SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Report:
    """What was found, and in the light of which version."""

    findings: tuple[Finding, ...]
    versions: dict[str, str | None]
    """Config file to version; None where it is not known."""
    version: str | None = None
    """As the command line states it."""

    def count(self, severity: str) -> int:
        """How many findings are of a severity."""
        return sum(finding.severity == severity for finding in self.findings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="config files, bare or envelopes")
    parser.add_argument(
        "--vllm-version",
        metavar="V",
        help="such as 0.26.0; without it the vLLM behind each config's command is asked, where that can be done",
    )
    parser.add_argument("--model", metavar="MODEL", help="target model of bare configs")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when there are warnings")
    parser.add_argument("--json", action="store_true", help="print JSON")
    # What follows `--` is taken off the command line before argparse sees it, which would take `-sc` for an option of ours.
    parser.usage = "%(prog)s FILE... [--vllm-version V] [--model MODEL] [--strict] [--json] [-- SERVER FLAGS]"
    parser.epilog = "Words after -- are flags of both servers, as `serve` holds them in an envelope."


def run(arguments: argparse.Namespace) -> str:
    """The report.

    Raises:
        SpecDecError: The version is none.
        Blocking: There are errors, or warnings with ``--strict``; it carries the report.
    """
    report = check(
        arguments.files,
        version=arguments.vllm_version,
        model=arguments.model,
        flags=tuple(getattr(arguments, "after_dashes", ())),
    )
    text = json.dumps(_as_data(report), indent=2) if arguments.json else "\n".join(_lines(report))
    if report.count("error"):
        raise Blocking(text, 2)
    if arguments.strict and report.count("warning"):
        raise Blocking(text, 1)
    return text


def check(files: Sequence[str], *, version: str | None, model: str | None, flags: Sequence[str]) -> Report:
    """Look at configs.

    Args:
        files: Config files.
        version: Of vLLM; None: the one behind each config's command.
        model: The target of bare configs.
        flags: Words of both servers' command line, beyond what the configs hold.

    Raises:
        SpecDecError: ``version`` is none.
    """
    from pytest_specdec.commands.workload_findings import workload_findings
    from pytest_specdec.core.config import read_configs
    from pytest_specdec.core.vllm_versions import EVERY, exactly
    from pytest_specdec.serving.preflight import (
        age_findings,
        flag_findings,
        folder_findings,
        key_findings,
        version_behind,
        version_findings,
    )

    versions: Versions | None = exactly(version) if version else None
    if version and versions is None:
        raise SpecDecError(f"{version!r} is no version of vLLM", where="--vllm-version", remedy="Such as 0.26.0.")
    configs, findings = read_configs(files, default_model=model or _NO_TARGET, versions=versions or EVERY, flags=flags)
    findings += age_findings(versions, "--vllm-version") if versions else []
    asked: dict[str, str | None] = {}
    for config in configs:
        findings += [*folder_findings(config, flags=flags, versions=versions or EVERY), *workload_findings(config)]
        if versions is not None:
            asked[str(config.path)] = version
            findings += flag_findings(config, versions, flags)
            continue
        asked[str(config.path)] = known = version_behind(config)
        # Where the installed vLLM says that it refuses a key, the tables' doubt about it is no longer one.
        sure = key_findings(config, known, "warning")
        places = {finding.where for finding in sure}
        findings = [finding for finding in findings if finding.severity != "warning" or finding.where not in places]
        findings += [*version_findings(config, known, flags=flags), *sure]
        if known is None:
            what = "the version of vLLM is not known, so only what holds for every supported one is an error"
            findings.append(Finding("note", config.where("command"), what, "Name it with --vllm-version."))
    findings += [_targetless(config) for config in configs if config.model == _NO_TARGET]
    if versions is None and len(configs) < len(files):
        what = "a config with errors is not asked for its vLLM, so what depends on the version is not checked in it"
        findings.append(Finding("note", "", what, "Name the version with --vllm-version."))
    wrong = {finding.where for finding in findings if finding.severity == "error"}
    # What was doubtful while the version was not known is no doubt beside its error.
    told = [finding for finding in findings if finding.severity != "warning" or finding.where not in wrong]
    return Report(tuple(dict.fromkeys(told)), asked, version)


_NO_TARGET = "unnamed/target"
"""Stands in for a target that was not named: a draft, keys and flags can be looked at without one."""


def _targetless(config: SpecConfig) -> Finding:
    what = "names no target, so nothing could be compared with it; pytest takes it from --specdec-model"
    return Finding("note", config.where("model"), what, "Name it with --model.")


def _lines(report: Report) -> list[str]:
    lines = [
        f"{finding.severity}: {finding}"
        for name in _SEVERITIES
        for finding in report.findings
        if finding.severity == name
    ]
    known = sorted({version for version in report.versions.values() if version}) or [*filter(None, [report.version])]
    against = f" for vLLM {', '.join(known)}" if known else ""
    counts = ", ".join(_counted(report.count(name), name) for name in _SEVERITIES)
    return [*lines, f"{counts}{against}"]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _as_data(report: Report) -> dict[str, Any]:
    return {
        "errors": report.count("error"),
        "warnings": report.count("warning"),
        "notes": report.count("note"),
        "vllm_versions": report.versions,
        "findings": [
            {"severity": finding.severity, "where": finding.where, "what": finding.what, "remedy": finding.remedy}
            for finding in report.findings
        ],
    }
