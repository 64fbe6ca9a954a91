"""Sections of other plugins as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.reporting.layout import WIDE, fitted, grid

if TYPE_CHECKING:
    from pytest_specdec.core.report_section import ReportSection


def section_lines(section: ReportSection, *, width: int = WIDE) -> list[str]:
    """Its lines and its table; that there is a drawing is said."""
    # A cell's line breaks would break its row.
    rows = [[" ".join(cell.split()) for cell in row] for row in section.table]
    table = grid(rows, width, fold=max(1, len(rows[0]) // 2)) if rows else []
    lines = [piece for line in section.lines for piece in line.splitlines() or [""]]
    return fitted([*lines, *table, *(["(its drawing is in the HTML report)"] if section.svg else [])], width)
