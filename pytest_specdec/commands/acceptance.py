"""Acceptance of drafts from one or two /metrics scrapes of a vLLM server."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.acceptance import EVERY_STEP, Acceptance, acceptance_of, inconsistencies
from pytest_specdec.core.errors import ScrapeError, SpecDecError
from pytest_specdec.core.metrics import draft_coverage, tokens_per_step

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from pytest_specdec.core.samples import ServerCounters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "before", metavar="BEFORE", help="a saved scrape, or an http(s) address of a server or its /metrics"
    )
    parser.add_argument(
        "after",
        metavar="AFTER",
        nargs="?",
        help="a later one of the same server; without it everything since the start counts",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; undefined figures are null")


def run(arguments: argparse.Namespace) -> str:
    """The figures.

    Raises:
        ScrapeError: The scrapes cannot be used.
    """
    counters = _window(arguments.before, arguments.after)
    acceptance = acceptance_of(counters)
    found = inconsistencies(counters, None)
    if found:
        raise ScrapeError(
            f"the counters contradict each other: {'; '.join(found)}",
            remedy="Scrape again while no request is running; where it stays so, this vLLM counts in another way.",
        )
    if arguments.json:
        return json.dumps(_as_data(acceptance, counters), indent=2)
    return "\n".join(acceptance_lines(acceptance, counters))


def acceptance_lines(acceptance: Acceptance, counters: ServerCounters) -> list[str]:
    """The figures for people: fractions as percent only where the line says so."""
    positions = len(counters.accepted_per_position or ())
    limit = f", at most {positions + 1}" if positions else ""
    accepted = f"{acceptance.accepted_tokens} of {acceptance.draft_tokens} draft tokens"
    lines = [
        f"acceptance length   {_number(acceptance.acceptance_length)}   (bonus token included{limit})",
        f"acceptance rate     {_number(acceptance.acceptance_rate)}   ({accepted})",
        f"drafts              {acceptance.drafts}",
    ]
    if acceptance.per_position is not None and acceptance.conditional is not None:
        lines += [
            _row("draft position", range(positions)),
            _row("  joint", map(_number, acceptance.per_position)) + "   of all drafts",
            _row("  conditional", map(_number, acceptance.conditional))
            + "   of the drafts accepted up to the one before",
        ]
    coverage, per_step = draft_coverage(counters), tokens_per_step(counters)
    if coverage is not None and per_step is not None:
        lines += [
            f"decode steps        {counters.decode_steps}",
            f"draft coverage      {_number(coverage)}   (share of the steps that verify a draft)",
            f"tokens per step     {_number(per_step)}",
        ]
        if acceptance.drafts and coverage < EVERY_STEP:
            lines.append(
                "Many steps have no draft: what speculation yields is tokens per step, not the acceptance length."
            )
    if not acceptance.drafts:
        lines.append("No draft was made, so acceptance is undefined.")
    return lines


def _window(before: str, after: str | None) -> ServerCounters:
    from pytest_specdec.serving.prometheus import difference, parse_scrape, process_start_unix_s
    from pytest_specdec.serving.scrape_source import read_metrics_text

    sources = [before] if after is None else [before, after]
    texts, scrapes = [], []
    for source in sources:
        text = read_metrics_text(source)
        try:
            scrapes.append(parse_scrape(text))
        except SpecDecError as error:
            raise ScrapeError(error.what, where=source, remedy=error.remedy) from None
        texts.append(text)
    starts = {start for start in map(process_start_unix_s, texts) if start is not None}
    if len(starts) > 1:
        raise ScrapeError(
            "the scrapes are of two server processes, started at different times",
            remedy="The server restarted in between, or the address leads to several replicas; scrape one of them twice.",
        )
    return scrapes[0] if len(scrapes) == 1 else difference(*scrapes)


def _as_data(acceptance: Acceptance, counters: ServerCounters) -> dict[str, Any]:
    return {
        **asdict(acceptance),
        "decode_steps": counters.decode_steps,
        "draft_coverage": draft_coverage(counters),
        "tokens_per_step": tokens_per_step(counters),
    }


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _row(label: str, cells: Iterable[object]) -> str:
    return f"{label:<20}" + "  ".join(f"{cell!s:<5}" for cell in cells).rstrip()
