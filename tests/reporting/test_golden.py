"""The HTML report looks as it did: pictures of it against those that are kept, within a tolerance that other fonts do not leave.

``tests/reporting/golden.py`` says what is compared and renews the pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

from pytest_specdec.reporting.html import html
from tests.reporting.browser import BROWSER, View
from tests.reporting.golden import VIEWS, differences, document, kept_of, look

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here (Debian: apt-get install chromium-headless-shell)"
)
DESKTOP, DARK, PHONE = VIEWS


@pytest.fixture(scope="module")
def page() -> str:
    return html(document())


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_report_looks_as_it_did(view: View, page: str, tmp_path: Path) -> None:
    seen = look(page, view)
    now = tmp_path / f"{view.name}.png"
    seen.picture.save(now)
    assert differences(seen, kept_of(view), view) == [], (
        f"see {now}; `python -m tests.reporting.golden` renews what is kept"
    )


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=lambda view: view.name)
@pytest.mark.parametrize(
    "style",
    [
        "body, svg { font-family: serif !important } pre { font-family: sans-serif }",
        "body, svg { font-family: monospace !important; font-size: 95% }",
        "body { letter-spacing: .04em; line-height: 1.6 }",
    ],
    ids=["serif", "monospace", "spaced"],
)
def test_other_fonts_are_within_the_tolerance(style: str, view: View, page: str) -> None:
    other = page.replace("</style>", f"{style}</style>", 1)
    assert other != page
    assert differences(look(other, view), kept_of(view), view) == []


@pytest.mark.parametrize(
    ("view", "before", "after", "said"),
    [
        (DARK, "(prefers-color-scheme: dark)", "(prefers-color-scheme: never)", "mean difference"),
        (PHONE, "(max-width: 44rem)", "(max-width: 4rem)", "other blocks|width|height"),
        (DESKTOP, "display: grid;", "", "width"),
        (DESKTOP, "svg, img { display: block; width: 100%;", "svg, img { display: block; width: 40%;", "svg"),
        (DESKTOP, "max-width: 68rem;", "", "width"),
        (DESKTOP, "--spec:", "--spec-is-gone:", "the colour 'spec' covers"),
        (DESKTOP, ".ok { color: var(--ok); }", "", "the colour 'ok' covers"),
        (DESKTOP, "background: var(--card);", "background: var(--line);", "mean difference"),
        (DESKTOP, "Gain against load</h2>", "Gain against load</h2><article>twice</article>", "other blocks"),
    ],
    ids=["no dark", "no phone", "no grid", "small charts", "too wide", "no lines", "no verdicts", "dark cards", "more"],
)
def test_what_is_broken_is_seen(view: View, before: str, after: str, said: str, page: str) -> None:
    assert before in page
    broken = differences(look(page.replace(before, after, 1), view), kept_of(view), view)
    assert broken
    assert any(word in line for line in broken for word in said.split("|"))
