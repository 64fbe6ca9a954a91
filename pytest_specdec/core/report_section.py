"""A section that another plugin adds to the reports, as it is handed over and kept in the result file."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - pydantic resolves the annotations at run time
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class ReportSection:
    """What ``pytest_specdec_report_sections`` returns: shown in the terminal, in the Markdown and on the page. All of it is text.

    Raises:
        TypeError: Something is no text.
        ValueError: It has no title, nothing to show, or a table with rows of several lengths.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}

    title: str
    """One line."""
    lines: Sequence[str] = ()
    """Paragraphs; they are wrapped where they are too long."""
    table: Sequence[Sequence[str]] = ()
    """Rows of cells, the first one the heading. Cells that are no text are turned into it."""
    svg: str = ""
    """A drawing for the page, shown as an image: no script in it runs, and it loads nothing."""

    def __post_init__(self) -> None:
        """Check, and turn lists into tuples."""
        for name in ("title", "svg"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a string, not {getattr(self, name)!r}")
        if isinstance(self.lines, str) or not all(isinstance(line, str) for line in self.lines):
            raise TypeError(f"lines must be a list of strings, not {self.lines!r}")
        if isinstance(self.table, str) or any(isinstance(row, str) for row in self.table):
            raise TypeError("table must be a list of rows, each a list of cells")
        table = tuple(tuple(map(str, row)) for row in self.table)
        if len({len(row) for row in table}) > 1 or () in table:
            raise ValueError("table must have as many cells in every row, and one at least")
        if not self.title.strip():
            raise ValueError("title must say something")
        if not (self.lines or table or self.svg):
            raise ValueError(f"{self.title!r} has nothing to show: give lines, a table or an svg")
        object.__setattr__(self, "title", " ".join(self.title.split()))
        object.__setattr__(self, "lines", tuple(self.lines))
        object.__setattr__(self, "table", table)
