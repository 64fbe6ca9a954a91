"""A session as one HTML page that needs nothing else: no script, no font, no address of another host.

Needs the extra ``report`` (Jinja2 and matplotlib).
"""

from __future__ import annotations

from base64 import b64encode
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

    def image(svg: str) -> Markup:
        # As an image, since what others draw may hold scripts, styles and links: browsers run and follow none of them there.
        encoded = b64encode(masked_text(svg, secrets).encode(errors="replace")).decode()
        return Markup(f"data:image/svg+xml;base64,{encoded}")  # noqa: S704 - nothing in it has a meaning in HTML

    environment.filters["drawn"] = Markup
    environment.filters["image"] = image
    template = environment.get_template("report.html.j2")
    return template.render(report=view_of(document), light=stylesheet(LIGHT), dark=stylesheet(DARK))
