"""A session as one HTML page that needs nothing else: no script, no font, no address of another host.

Needs the extra ``report`` (Jinja2 and matplotlib).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.reporting.palette import DARK, LIGHT, stylesheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.results import ResultDocument


def html(document: ResultDocument, secrets: Sequence[str] = ()) -> str:
    """The page.

    Args:
        document: What was measured and judged.
        secrets: Values that are known to be secret; see :func:`pytest_specdec.core.masked_text.masked_text`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from pytest_specdec.reporting.report_view import view_of

    def masked(value: Any) -> Any:
        return masked_text(value, secrets) if type(value) is str else value

    environment = Environment(
        loader=PackageLoader("pytest_specdec.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=masked,
    )
    environment.filters["drawn"] = Markup
    template = environment.get_template("report.html.j2")
    return template.render(report=view_of(document), light=stylesheet(LIGHT), dark=stylesheet(DARK))
