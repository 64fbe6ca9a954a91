"""The HTML report as pictures: how they are made, and how much they may differ from those that are kept.

``python -m tests.reporting.golden`` renews what is kept, in ``tests/data/golden``; look at every picture before you commit it.

Another release of Chromium, of matplotlib or of a font moves every letter, wraps some lines otherwise and shifts all that stands below.
So pictures are not compared pixel by pixel, but in what none of these changes:

- **boxes**: the same blocks in the same order, as far from the left and as wide (``_SAME_PX``), pictures as high; blocks of text may be
  higher or lower by a half, since lines wrap otherwise;
- **blurred blocks**: each card and each chart by itself, cut out where it stands in each picture, scaled to the same cells; the mean
  difference may be ``_TEXT_DIFFERENCE`` of 255, in charts ``_CHART_DIFFERENCE``. With other fonts it was 19 and
  2.3 at most, with another theme 200;
- **colours**: each colour of the page's palette covers about as much as it did (``_COVERAGE``): a line of a chart that is gone, or a verdict
  that lost its colour, is too thin for a blur.

``test_golden.py`` shows both: a page in other fonts passes, and broken ones do not.
"""

from __future__ import annotations

import html as escapes
import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict
from pytest_specdec.reporting.palette import DARK, LIGHT
from tests.core.comparison_builder import build_comparison
from tests.reporting.browser import View, browse

KEPT = Path(__file__).parents[1] / "data" / "golden"
_SAME_PX = 2.0
_TEXT_HEIGHT = (0.5, 1.5)
_CELL_PX = 16
_TEXT_DIFFERENCE, _CHART_DIFFERENCE = 35.0, 10.0
_COVERAGE = (0.5, 2.0)
_LEAST_PX = 150
"""Colours that cover less are not counted: edges of letters come near many colours."""
_NEAR = 40
"""Sum over red, green and blue by which a pixel may differ from the colour that it counts for."""
_COLOURS = ("ok", "fail", "unsure", "spec")
"""Those that mean something; the others are told by the blur."""

BLOCKS = "header, header pre, article, article table, article tr, svg.interval, section, section > pre, .charts, figure, figure svg"
_LOOK = """
<script>
const boxes = [...document.querySelectorAll("BLOCKS")].filter(one => one.getBoundingClientRect().width > 1).map(one => {
  const box = one.getBoundingClientRect();
  return {name: one.tagName.toLowerCase() + (one.classList.contains("interval") ? ".interval" : ""),
          x: box.x, y: box.y, width: box.width, height: box.height};
});
const out = document.createElement("pre"); out.id = "boxes"; out.hidden = true; out.textContent = JSON.stringify(boxes);
document.body.append(out);
</script>
"""

VIEWS = (
    View("desktop-light", 1200, 2400, "light"),
    View("desktop-dark", 1200, 2400, "dark"),
    View("phone-light", 390, 3600, "light"),
)


@dataclass(frozen=True)
class Seen:
    """A page as a browser shows it."""

    boxes: list[dict[str, Any]]
    """Name, x, y, width and height, in CSS pixels and the page's order."""
    picture: Image.Image


def look(page: str, view: View) -> Seen:
    """Show a page to the browser, with a script that measures it; the page's own policy would forbid one."""
    script = _LOOK.replace("BLOCKS", BLOCKS)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", page).replace("</body>", f"{script}</body>")
    document, picture = browse(text, view)
    found = re.search(r'<pre id="boxes"[^>]*>(.*?)</pre>', document, re.DOTALL)
    assert found, document
    return Seen(json.loads(escapes.unescape(found[1])), picture)


def differences(now: Seen, kept: Seen, view: View) -> list[str]:
    """What is not as it was, in words; empty within the tolerance."""
    moved = _moved(now.boxes, kept.boxes)
    return moved or [*_blurred(now, kept), *_coverage(now.picture, kept.picture, view)]


def _moved(now: list[dict[str, Any]], kept: list[dict[str, Any]]) -> list[str]:
    names, before = ([box["name"] for box in boxes] for boxes in (now, kept))
    if names != before:
        return [f"other blocks: {names} instead of {before}"]
    found = []
    for place, (box, old) in enumerate(zip(now, kept, strict=True)):
        drawn = box["name"].startswith("svg")
        # A small picture stands in a table, whose columns are as wide as their words.
        sides = ["width", *(["height"] if drawn else []), *(["x"] if box["name"] != "svg.interval" else [])]
        if box["name"] == "tr":
            sides = ["x", "width"]
        found += [
            f"{box['name']} {place}: {side} {box[side]:.0f} instead of {old[side]:.0f}"
            for side in sides
            if abs(box[side] - old[side]) > _SAME_PX
        ]
        if not drawn and not _TEXT_HEIGHT[0] <= box["height"] / old["height"] <= _TEXT_HEIGHT[1]:
            found.append(f"{box['name']} {place}: height {box['height']:.0f} instead of {old['height']:.0f}")
    return found


def _blurred(now: Seen, kept: Seen) -> list[str]:
    found = []
    for place, (box, old) in enumerate(zip(now.boxes, kept.boxes, strict=True)):
        if box["name"] not in ("header", "article", "section", "svg") or not (_inside(now, box) and _inside(kept, old)):
            continue
        cells = (max(1, int(old["width"] // _CELL_PX)), max(1, int(old["height"] // _CELL_PX)))
        one, other = (_cells(seen, where, cells) for seen, where in ((now, box), (kept, old)))
        mean = float(np.abs(one - other).mean())
        if mean > (_CHART_DIFFERENCE if box["name"] == "svg" else _TEXT_DIFFERENCE):
            found.append(f"{box['name']} {place}: mean difference {mean:.1f} of 255")
    return found


def _inside(seen: Seen, box: dict[str, Any]) -> bool:
    return bool(box["y"] + box["height"] <= seen.picture.height)


def _cells(seen: Seen, box: dict[str, Any], cells: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    left, top = box["x"], box["y"]
    cut = seen.picture.crop((int(left), int(top), int(left + box["width"]), int(top + box["height"])))
    return np.asarray(cut.resize(cells, Image.Resampling.BOX), dtype=np.float64)


def _coverage(now: Image.Image, kept: Image.Image, view: View) -> list[str]:
    found = []
    for name in _COLOURS:
        colour = (DARK if view.scheme == "dark" else LIGHT)[name]
        here, before = (_pixels(picture, colour) for picture in (now, kept))
        if max(here, before) >= _LEAST_PX and not _COVERAGE[0] <= here / max(before, 1) <= _COVERAGE[1]:
            found.append(f"the colour {name!r} covers {here} pixels instead of {before}")
    return found


def _pixels(picture: Image.Image, colour: str) -> int:
    wanted = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)])
    return int((np.abs(np.asarray(picture, dtype=np.int64) - wanted).sum(axis=2) <= _NEAR).sum())


def kept_of(view: View) -> Seen:
    """What was kept of a view."""
    with Image.open(KEPT / f"{view.name}.png") as picture:
        return Seen(json.loads((KEPT / f"{view.name}.json").read_text()), picture.convert("RGB"))


def document() -> ResultDocument:
    """A session with something of everything, the same on every machine."""
    built = {
        "eagle3": build_comparison(tpot_spec_ms=7.0, noise=0.05, prompt_spread=0.05, seed=1),
        "ngram": build_comparison(
            tpot_spec_ms=9.6, noise=0.05, prompt_spread=0.05, seed=2, method="ngram", acceptance=(0.5, 0.3, 0.1)
        ),
    }
    comparisons = {
        f"{name}/chat": replace(one, config_id=name, device="NVIDIA H200", notes=("one device was warm",))
        for name, one in built.items()
    }
    low = build_comparison(load=LoadSpec(concurrency=32, max_tokens=33), tpot_spec_ms=11.0, noise=0.05, seed=3)
    comparisons["eagle3/chat#2"] = replace(low, config_id="eagle3", device="NVIDIA H200")
    gain = Verdict(Requirement("tpot_gain", 0.35), Estimate(0.301, 0.285, 0.316, 0.9875), "FAIL", "higher", "fraction")
    length = Verdict(
        Requirement("min_acceptance_length", 1.5), Estimate(2.69, 2.6, 2.78, 0.9875), "ok", "higher", "tokens"
    )
    ttft = Verdict(
        Requirement("ttft_p95_ms", 55),
        Estimate(54, None, 57, 0.9875),
        "unsure",
        "lower",
        "ms",
        advice="about 9 rounds would settle it",
    )
    gates = (
        GateRecord("test_chat.py::test_gain[eagle3]", "eagle3", "failed", "eagle3/chat", (gain, length, ttft)),
        GateRecord("test_chat.py::test_length[eagle3]", "eagle3", "passed", "eagle3/chat", (length,)),
        GateRecord("test_chat.py::test_gain[mtp]", "mtp", "error", message="the specdec server exited with code 1"),
    )
    environment = {"pytest_specdec": "0.1.0", "python": "3.11", "platform": "Linux", "argv": "pytest"}
    return ResultDocument(created_unix_s=1.8e9, environment=environment, comparisons=comparisons, gates=gates)


def renew() -> None:
    """Make all pictures anew."""
    from pytest_specdec.reporting.html import html

    KEPT.mkdir(parents=True, exist_ok=True)
    page = html(document())
    for view in VIEWS:
        seen = look(page, view)
        # Fewer colours, those of thin lines among them: the pictures stay small.
        seen.picture.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            KEPT / f"{view.name}.png", optimize=True
        )
        boxes = ",\n".join(
            json.dumps({key: round(one, 1) if key != "name" else one for key, one in box.items()}) for box in seen.boxes
        )
        (KEPT / f"{view.name}.json").write_text(f"[\n{boxes}\n]\n")
        sys.stdout.write(f"{KEPT / view.name}.png\n")


if __name__ == "__main__":
    renew()
