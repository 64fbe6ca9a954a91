"""The HTML report in a real browser: on a phone and a desktop, in light and dark."""

from __future__ import annotations

import html as escapes
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.reporting.result_file import read_result

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from pytest_specdec.reporting.html import html
from tests.reporting.browser import BROWSER, View, browse

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here (Debian: apt-get install chromium-headless-shell)"
)

LOOK = """
<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const lightness = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!colour.startsWith("rgba(0, 0, 0, 0")) return colour;
  }
  return "rgb(255, 255, 255)";
};
const seen = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!own || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const drawn = element instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [lightness(drawn), lightness(behind(element))].sort();
  const [low, high] = a < b ? [a, b] : [b, a];
  seen.push({text: element.textContent.trim().slice(0, 40), contrast: (high + 0.05) / (low + 0.05)});
}
const report = {
  width: document.documentElement.clientWidth,
  scrolled: document.documentElement.scrollWidth,
  outside: [...document.querySelectorAll("body *")].filter(one => !one.closest("pre, svg, thead") &&
    one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(one => one.outerHTML.slice(0, 80)),
  background: getComputedStyle(document.body).backgroundColor,
  seen: seen,
};
const out = document.createElement("pre"); out.id = "looked"; out.textContent = JSON.stringify(report);
document.body.append(out);
</script>
"""


@pytest.fixture(scope="module")
def page() -> str:
    """With a script that looks at it; the page's own policy would forbid one."""
    text = html(read_result(SAVED))
    return re.sub(r"<meta http-equiv=[^>]*>", "", text).replace("</body>", f"{LOOK}</body>")


@pytest.fixture(scope="module", params=[(390, "light"), (390, "dark"), (1200, "light"), (1200, "dark")], ids=str)
def looked(request: pytest.FixtureRequest, page: str) -> dict[str, Any]:
    """What the browser makes of the page at a width and with a preference."""
    width, scheme = request.param
    document, _ = browse(page, View("page", width, 900, scheme))
    found = re.search(r'<pre id="looked">(.*?)</pre>', document, re.DOTALL)
    assert found, document
    data: dict[str, Any] = json.loads(escapes.unescape(found[1]))
    return data | {"asked": width, "scheme": scheme}


def test_nothing_scrolls_sideways(looked: dict[str, Any]) -> None:
    assert looked["width"] == looked["asked"]
    assert looked["outside"] == []
    assert looked["scrolled"] <= looked["width"]


def test_all_text_can_be_read(looked: dict[str, Any]) -> None:
    assert len(looked["seen"]) > 50
    assert [one for one in looked["seen"] if one["contrast"] < 4.5] == []


def test_page_follows_light_and_dark(looked: dict[str, Any]) -> None:
    assert looked["background"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[looked["scheme"]]
