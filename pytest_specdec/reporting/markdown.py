"""A session as Markdown, for GitHub's job summary and for comments on a pull request: misses first, the rest folded."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from pytest_specdec.core.summary import summarise
from pytest_specdec.reporting.added_sections import section_lines
from pytest_specdec.reporting.terminal import failure_lines, session_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.results import GateRecord, Judgement, ResultDocument

LIMIT_BYTES = 60_000
"""A comment on GitHub may have 65,536 characters; a step's summary far more."""
_ORDER: tuple[Judgement, ...] = ("ERROR", "FAIL", "unsure", "unjudged", "ok")
"""What blocks comes first."""
_WORDS: dict[Judgement, str] = {
    "ERROR": "could not be measured",
    "FAIL": "missed",
    "unsure": "unsure",
    "unjudged": "not judged",
    "ok": "met",
}
_LEFT_OUT = "\nThe tables of {count} more are left out here; `pytest-specdec show` prints them from the result file.\n"

_SECTIONS_LEFT_OUT = "\nSections of other plugins that are left out here: {count}; they are in the result file.\n"


def worst_first(gates: Sequence[GateRecord]) -> list[GateRecord]:
    """Gates in the order in which a person should look at them."""
    return sorted(gates, key=lambda gate: _ORDER.index(gate.judgement))


def verdict_sentence(gates: Sequence[GateRecord]) -> str:
    """``1 of 3 gates missed, 2 met``; words only, so that it needs no colour."""
    counts = Counter(gate.judgement for gate in gates)
    parts = [(counts[judgement], _WORDS[judgement]) for judgement in _ORDER if counts[judgement]]
    if not parts:
        return "no gate was judged"
    total = f"{len(gates)} gate{'' if len(gates) == 1 else 's'}"
    first, *rest = parts
    return ", ".join([f"{first[0]} of {total} {first[1]}", *(f"{count} {word}" for count, word in rest)])


def markdown(document: ResultDocument, *, limit_bytes: int = LIMIT_BYTES) -> str:
    """The whole report; tables that do not fit are left out, and counted.

    Args:
        document: What was measured and judged.
        limit_bytes: Of the UTF-8.
    """
    gates = worst_first(document.gates)
    rows = session_lines(gates, document.comparisons) or ["no gate was judged"]
    head = f"## Speculative decoding: {verdict_sentence(gates)}\n\n{_fenced(rows)}\n"
    if len(head.encode()) > limit_bytes:
        return f"## Speculative decoding: {verdict_sentence(gates)}\n"
    text, room = head, limit_bytes - len(_LEFT_OUT) - 20
    for place, gate in enumerate(gates):
        section = _section(gate, document)
        if len((text + section).encode()) > room:
            return text + _LEFT_OUT.format(count=len(gates) - place)
        text += section
    left_out = 0
    for added in document.sections:
        section = f"\n### {_escaped(added.title)}\n\n{_fenced(section_lines(added))}"
        if len((text + section).encode()) <= room:
            text += section
        else:
            left_out += 1
    return text + (_SECTIONS_LEFT_OUT.format(count=left_out) if left_out else "")


def _section(gate: GateRecord, document: ResultDocument) -> str:
    title = f"{gate.judgement}: {_code(gate.nodeid)}"
    lines = [gate.message] if gate.message and gate.judgement != "ok" else []
    if gate.comparison is not None:
        comparison = document.comparisons[gate.comparison]
        lines += failure_lines(gate, comparison, summarise(comparison))
    body = _fenced(lines) if lines else ""
    if gate.judgement in ("ok", "unjudged"):
        return f"\n<details><summary>{title}</summary>\n\n{body}\n</details>\n"
    return f"\n### {title}\n\n{body}\n"


def _fenced(lines: Sequence[str]) -> str:
    """A block in which nothing has a meaning, whatever it holds."""
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}\n"


def _code(text: str) -> str:
    """As it is, in HTML: within <summary> Markdown means nothing, in a heading it would."""
    return f"<code>{_escaped(text)}</code>"


def _escaped(text: str) -> str:
    return "".join(f"&#{ord(char)};" if char in "<>&`*_[]|\\~@#" else char for char in " ".join(text.split()))
