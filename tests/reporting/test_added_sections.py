"""Sections of other plugins in the reports: all of them, escaped, masked, and nothing that a browser would obey."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.report_section import ReportSection
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.reporting.added_sections import section_lines
from pytest_specdec.reporting.markdown import markdown

HOSTILE = "</pre><script>alert(1)</script>`````&amp;\x1b[31m"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><rect width="10" height="10" fill="#ff00ff"/>{}</svg>'
)
TABLE = (("node", "price per million tokens"), ("gpu-7", "0.42"), ("gpu-8", "0.57"))


def document(*sections: ReportSection) -> ResultDocument:
    gates = (GateRecord("test_a.py::test_a", "eagle3", "error", message="no server"),)
    return ResultDocument(created_unix_s=1.8e9, environment={}, comparisons={}, gates=gates, sections=sections)


def page(*sections: ReportSection, secrets: tuple[str, ...] = ()) -> str:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from pytest_specdec.reporting.html import html

    return html(document(*sections), secrets)


def test_lines_and_table_fit_the_terminal() -> None:
    section = ReportSection("Costs", ["a b " * 30, "short"], TABLE, SVG.format(""))
    lines = section_lines(section, width=40)
    assert max(map(len, lines)) <= 40
    assert lines[-5:] == [
        "short",
        "node    price per million tokens",
        "gpu-7   0.42",
        "gpu-8   0.57",
        "(its drawing is in the HTML report)",
    ]


def test_a_table_that_is_too_wide_takes_two_lines_a_row() -> None:
    assert section_lines(ReportSection("Costs", table=TABLE), width=25)[:2] == ["node", "    price per million"]


def test_a_table_of_one_column_is_a_list() -> None:
    table = [["what was seen"], ["a b c d e f g h"]]
    assert section_lines(ReportSection("Seen", table=table), width=12) == [
        "what was",
        "    seen",
        "a b c d e f",
        "    g h",
    ]


def test_markdown_has_it_and_takes_nothing_in_it_for_markup() -> None:
    text = markdown(document(ReportSection("Costs <b>*now*</b>", [HOSTILE], TABLE)))
    assert "\n### Costs &#60;b&#62;&#42;now&#42;&#60;/b&#62;\n\n``````text\n</pre><script>" in text
    assert "gpu-8   0.57\n``````\n" in text
    assert "\x1b" not in text


def test_markdown_leaves_out_what_does_not_fit() -> None:
    big, small = ReportSection("Big", ["x" * 3000]), ReportSection("Small", ["y"])
    text = markdown(document(big, small), limit_bytes=2000)
    assert len(text.encode()) <= 2000
    assert "### Small" in text
    assert "Sections of other plugins that are left out here: 1;" in text
    assert "left out" not in markdown(document(big, small))


def test_page_has_it_and_takes_nothing_in_it_for_markup() -> None:
    etree = pytest.importorskip("lxml.etree")
    table = [("<i>node</i>", HOSTILE.replace("\x1b", "")), ("a", '"><img src=x>')]
    tree = etree.HTML(page(ReportSection("Costs <b>", ["a <u>line</u>", "b"], table)))
    (section,) = tree.xpath("//section[h2[text()='Costs <b>']]")
    assert [one.text for one in section.xpath("p")] == ["a <u>line</u>", "b"]
    assert section.xpath("string(.//tbody/tr/td[2])") == '"><img src=x>'
    assert section.xpath(".//td[1]/@data-label") == ["<i>node</i>"]
    assert tree.xpath("//script | //u | //i | //b | //img") == []


def test_a_drawing_is_an_image_without_secrets() -> None:
    import base64

    etree = pytest.importorskip("lxml.etree")
    svg = SVG.format("<text>abcdefghij</text>")
    tree = etree.HTML(page(ReportSection("Costs", svg=svg), secrets=("abcdefghij",)))
    (image,) = tree.xpath("//section//img")
    assert image.get("alt") == "Drawing of Costs"
    kind, _, data = image.get("src").partition(",")
    assert kind == "data:image/svg+xml;base64"
    shown = base64.b64decode(data).decode()
    assert "#ff00ff" in shown
    assert "abcdefghij" not in shown


def test_a_page_without_drawings_allows_no_images() -> None:
    assert "img-src" not in page()


def test_browser_shows_a_drawing_and_runs_nothing_of_it() -> None:
    pytest.importorskip("PIL")
    from tests.reporting.browser import BROWSER, View, browse

    if BROWSER is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium-headless-shell)")
    script = "<script>top.document.title = 'changed'; document.querySelector('rect').remove()</script>"
    dom, picture = browse(page(ReportSection("Costs", svg=SVG.format(script))), View("phone", 390, 1600, "light"))
    assert "<title>Speculative decoding: 1 of 1 gate could not be measured</title>" in dom
    magenta = sum(count for count, colour in picture.getcolors(1 << 24) or () if colour == (255, 0, 255))
    assert magenta > 300 * 300


def test_it_is_kept_in_the_result_file() -> None:
    section = ReportSection("Costs", ["a"], TABLE, SVG.format(""))
    assert ResultDocument.from_json(document(section).to_json()).sections == (section,)


def test_a_result_file_of_before_has_none() -> None:
    text = document().to_json().replace(',"sections":[]', "")
    assert "sections" not in text
    assert ResultDocument.from_json(text).sections == ()


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"title": " "}, ValueError, "title must say something"),
        ({"title": None}, TypeError, "title must be a string, not None"),
        ({"title": "A"}, ValueError, "'A' has nothing to show"),
        ({"title": "A", "lines": "one"}, TypeError, "lines must be a list of strings, not 'one'"),
        ({"title": "A", "lines": [1]}, TypeError, "lines must be a list of strings"),
        ({"title": "A", "table": ["ab", "cd"]}, TypeError, "table must be a list of rows"),
        ({"title": "A", "table": [["a", "b"], ["c"]]}, ValueError, "table must have as many cells in every row"),
        ({"title": "A", "svg": b"<svg/>"}, TypeError, "svg must be a string"),
    ],
)
def test_what_cannot_be_shown_is_refused(fields: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ReportSection(**fields)


def test_cells_become_text_and_a_title_one_line() -> None:
    section = ReportSection("A\n b", table=[["n"], [3]])  # type: ignore[list-item] # what plugins do
    assert (section.title, section.table) == ("A b", (("n",), ("3",)))
