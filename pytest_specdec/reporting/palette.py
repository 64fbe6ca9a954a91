"""The colours of the HTML report, light and dark. Text has a contrast of at least 4.5 to its background, lines of 3."""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff",
    "card": "#f5f6f8",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "line": "#8c959f",
    "ok": "#116329",
    "fail": "#a40e26",
    "unsure": "#7a4e00",
    "base": "#57606a",
    "spec": "#0550ae",
}
DARK = {
    "paper": "#14171c",
    "card": "#1d2229",
    "ink": "#e8eaed",
    "muted": "#a9b1bb",
    "line": "#6e7681",
    "ok": "#56d364",
    "fail": "#ff9a94",
    "unsure": "#e3b341",
    "base": "#a9b1bb",
    "spec": "#79c0ff",
}
_HIGH, _SHIFT = 0.04045, 0.055


def contrast(one: str, other: str) -> float:
    """Between two ``#rrggbb``, from 1 to 21 (WCAG 2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= _HIGH else ((part + _SHIFT) / (1 + _SHIFT)) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def stylesheet(colours: dict[str, str]) -> str:
    """Custom properties of CSS."""
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
