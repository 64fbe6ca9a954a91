"""Write the HTML or Markdown report of a saved session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import SpecDecError

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = Path(".specdec/results.json")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, default=default, help=f"default {default}")
    parser.add_argument("--html", metavar="PATH", type=Path, help="write one self-contained page")
    parser.add_argument("--md", metavar="PATH", type=Path, help="write Markdown, as for a comment on a pull request")


def run(arguments: argparse.Namespace) -> str:
    """Where the reports are.

    Raises:
        SpecDecError: The file cannot be read, a report cannot be written, or none was asked for.
    """
    from pytest_specdec.reporting.report_files import KINDS, ReportFile, check_installed, write_report
    from pytest_specdec.reporting.result_file import read_result

    wanted = [ReportFile(kind, path) for kind in KINDS if (path := getattr(arguments, kind)) is not None]
    if not wanted:
        raise SpecDecError("no report was asked for", remedy="Give --html PATH, --md PATH, or both.")
    for report in wanted:
        check_installed(report.kind)
    document = read_result(arguments.file)
    for report in wanted:
        write_report(document, report)
    return "\n".join(f"report: {report.path}" for report in wanted)
