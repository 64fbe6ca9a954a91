"""Why a server did not come up or went away: from its log and its end to one sentence and a remedy.

What is known about vLLM's errors is data, in ``causes.yaml``; here is how a log is searched for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.serving.log_errors import LoggedError, logged_errors, take_apart
from pytest_specdec.serving.log_tables import CauseEntry, Circumstances, causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specdec.serving.supervisor import ExitStatus

_SIGKILL = 9
_SAID_AT_MOST = 400
_ERRORS_AT_MOST, _LINES_AT_MOST = 40, 400
"""Of a log that are looked up: a log that repeats itself for megabytes says no more."""
_WRAPPERS = re.compile(
    r"Engine core initialization failed|See root cause above|See stack trace above|in a background process"
    r"|EngineCore encountered an issue|Engine process failed to start|^SystemExit\b|^KeyboardInterrupt\b|CancelledError\b"
)
"""Errors that only pass another one on."""
_VERSION = re.compile(
    r"\bversion (?P<banner>\d{1,3}\.\d{1,3}[\w.+]{0,40})|LLM engine \(v(?P<engine>\d{1,3}\.\d{1,3}[\w.+]{0,40})\)"
)
_VERSION_WITHIN = 400
"""Lines from the start of a log."""
_NOISE = re.compile(
    r"^nanobind: | - leaked \w+ \"| - \.\.\. skipped remainder|resource_tracker|^\s*warnings\.warn\(|^\s*\^+$"
)
"""What Python and its libraries print at exit, after the line that matters; and the underlining of tracebacks."""


@dataclass(frozen=True)
class Cause:
    """What the log and the end of a server give as the reason."""

    what: str
    """One sentence; of an error that the table does not know, the error itself."""
    remedy: str = ""
    id: str = ""
    """The entry in ``causes.yaml``; empty for an error that it does not know."""
    said: str = ""
    """vLLM's own words for a known cause."""
    port_taken: bool = False
    memory: bool = False
    """Who holds the device's memory matters."""


def find_cause(
    lines: Sequence[str],
    ended: ExitStatus | None,
    here: Circumstances = Circumstances(),  # noqa: B008 - a frozen record
    secrets: Sequence[str] = (),
) -> Cause | None:
    """The reason for the end of a server, or None when nothing gives one.

    The engine's and the workers' errors come before the API server's, which mostly pass them on, and the first before the
    later ones; of them the first that the table knows counts, else the first of all.

    Args:
        lines: The log of this launch, without colours.
        ended: How the process ended; None when it was still running.
        here: What else is known. Version and end are filled in from the other arguments.
        secrets: Values that must not be quoted.
    """
    killed = ended is not None and ended.signal == _SIGKILL
    here = replace(
        here,
        version=here.version or version_in(lines),
        exit_code=ended.code if ended is not None else here.exit_code,
        event=here.event or ("killed" if killed else None),
    )
    errors = _by_weight(logged_errors(lines))
    cause = _by_error(errors, here) or _by_line(lines, here) or _by_event(here)
    if cause is None and errors:
        cause = Cause(errors[0].said)
    if cause is None:
        return None
    return replace(
        cause,
        what=_shortened(masked_text(cause.what, secrets)),
        said=_shortened(masked_text(cause.said, secrets)),
        remedy=masked_text(cause.remedy, secrets),
    )


def version_in(lines: Sequence[str]) -> str | None:
    """The version of vLLM as its log tells it."""
    found = (_VERSION.search(line[:_SAID_AT_MOST]) for line in lines[:_VERSION_WITHIN])
    return next((match["banner"] or match["engine"] for match in found if match), None)


def quote(lines: Sequence[str], count: int = 20, secrets: Sequence[str] = ()) -> str:
    """The last lines of a log that say something, secrets masked, set off from the message around them."""
    telling = [line for line in lines if not _NOISE.search(line)]
    if not telling:
        return "\n  Its log is empty."
    shown = masked_text("\n".join(line[:2000] for line in telling[-count:]), secrets).split("\n")
    return "\n  The end of its log:\n" + "\n".join(f"    | {line}" for line in shown)


def _by_weight(errors: Sequence[LoggedError]) -> list[LoggedError]:
    telling = [error for error in errors if not _WRAPPERS.search(error.said)]
    distinct = dict.fromkeys(sorted(telling, key=lambda error: error.passed_on))
    return list(distinct)[:_ERRORS_AT_MOST]


def _by_error(errors: Sequence[LoggedError], here: Circumstances) -> Cause | None:
    entries = [entry for entry in causes() if entry.patterns and not entry.any_line and entry.when.holds(here)]
    for error in errors:
        for entry in entries:
            if (found := _first_match(entry, error.body)) is not None:
                return _cause(entry, found, error.said)
    return None


def _by_line(lines: Sequence[str], here: Circumstances) -> Cause | None:
    """Fatal lines that are no exception; from the end, where programs say why they stop."""
    entries = [entry for entry in causes() if entry.any_line and entry.when.holds(here)]
    for text in _fatal(lines):
        for entry in entries:
            if (found := _first_match(entry, text)) is not None:
                return _cause(entry, found, text)
    return None


def _fatal(lines: Sequence[str]) -> Iterator[str]:
    for line in reversed(lines[-_LINES_AT_MOST:]):
        part = take_apart(line)
        if part.is_error:
            yield part.text


def _by_event(here: Circumstances) -> Cause | None:
    if here.event is None:
        return None
    entry = next((entry for entry in causes() if entry.event == here.event and entry.when.holds(here)), None)
    return _cause(entry, {}, "") if entry is not None else None


def _first_match(entry: CauseEntry, text: str) -> dict[str, str] | None:
    found = next((match for pattern in entry.patterns if (match := pattern.search(text)) is not None), None)
    return None if found is None else {name: (value or "?").strip() for name, value in found.groupdict().items()}


def _cause(entry: CauseEntry, found: Mapping[str, str], said: str) -> Cause:
    return Cause(
        what=entry.explanation.format_map(found),
        remedy=entry.remedy.format_map(found),
        id=entry.id,
        said=said.strip(),
        port_taken=entry.port_taken,
        memory=entry.memory,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _SAID_AT_MOST else f"{text[:_SAID_AT_MOST]} ..."
