"""Reports as files: which kinds there are, where they go, and how they get there whole."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_specdec.core.errors import ResultFileError, SpecDecError
from pytest_specdec.core.masked_text import masked_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_specdec.core.results import ResultDocument

Kind = Literal["html", "md"]
KINDS: tuple[Kind, ...] = ("html", "md")
_NEEDS: dict[Kind, tuple[str, ...]] = {"html": ("jinja2", "matplotlib"), "md": ()}
SUMMARY_LIMIT_BYTES = 1024 * 1024
"""What GitHub takes as the summary of one step, of all that the step appends."""


@dataclass(frozen=True)
class ReportFile:
    """A report that shall be written."""

    kind: Kind
    path: Path


def wanted_report(text: str, *, here: Path, directory: Path) -> ReportFile:
    """What ``html``, ``html:PATH``, ``md`` or ``md:PATH`` asks for.

    Args:
        text: As given.
        here: What a PATH is relative to.
        directory: Where the report goes without one.

    Raises:
        SpecDecError: No such kind, or what it needs is not installed.
    """
    kind, sign, path = text.partition(":")
    if kind not in KINDS or (sign and not path):
        raise SpecDecError(
            f"{text!r} is no report",
            remedy="There are html and md, each with or without a path, such as html:report.html.",
        )
    check_installed(kind)
    return ReportFile(kind, here / path if path else directory / f"report.{kind}")


def check_installed(kind: Kind) -> None:
    """Whether a kind of report can be made here.

    Raises:
        SpecDecError: With what to install.
    """
    missing = [name for name in _NEEDS[kind] if importlib.util.find_spec(name) is None]
    if missing:
        raise SpecDecError(
            f"the {kind} report needs {' and '.join(missing)}", remedy="Run: pip install 'pytest-specdec[report]'"
        )


def write_report(document: ResultDocument, report: ReportFile, secrets: Sequence[str] = ()) -> None:
    """Render and write one report, whole or not at all.

    Raises:
        ResultFileError: It cannot be written.
    """
    from pytest_specdec.reporting.result_file import replace_file

    replace_file(report.path, rendered(document, report.kind, secrets))


def rendered(document: ResultDocument, kind: Kind, secrets: Sequence[str] = ()) -> str:
    """The text of a report, secrets masked."""
    if kind == "html":
        from pytest_specdec.reporting.html import html

        return html(document, secrets)
    from pytest_specdec.reporting.markdown import markdown

    return masked_text(markdown(document), secrets)


def append_summary(document: ResultDocument, path: Path, secrets: Sequence[str] = ()) -> None:
    """Append the Markdown to a job summary, as far as its host takes it.

    Raises:
        ResultFileError: It cannot be written.
    """
    from pytest_specdec.reporting.markdown import LIMIT_BYTES, markdown

    try:
        before = path.stat().st_size if path.exists() else 0
        room = SUMMARY_LIMIT_BYTES - before - 1024
        if room <= 0:
            return
        text = masked_text(markdown(document, limit_bytes=min(LIMIT_BYTES, room)), secrets)
        with path.open("ab") as file:
            file.write(f"\n{text}\n".encode(errors="replace"))
    except OSError as error:
        raise ResultFileError(
            f"the job summary cannot be written: {error.strerror or error}",
            where=str(path),
            remedy="GITHUB_STEP_SUMMARY names it; --specdec-no-job-summary leaves it alone.",
        ) from error
