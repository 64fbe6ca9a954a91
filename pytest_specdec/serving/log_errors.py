"""The exceptions in a log: which process raised them, what they say, and through which functions they came.

vLLM prints tracebacks with a prefix on each line (``(EngineCore pid=7) ERROR 07-01 12:00:00 [core.py:1] ...``), Python prints
them bare; both kinds stand in one log, the engine's and the API server's one after the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

API_SERVER = "APIServer"
_FRONT = re.compile(r"(?i:APIServer)(?:_\d{1,4})?|MainProcess")
"""Of several API servers each has a number, and the process that started them a name of its own."""
_LINE_AT_MOST = 2_000
"""Characters of a line that are read: an error that lists all architectures is longer and says no more."""
_BODY_LINES = 8
_FRAMES = 60

_PROCESS_PREFIX = re.compile(r"^\((?P<process>[\w -]{1,80}?)(?: pid=\d{1,12})?\)\s{0,4}")
_LOG_PREFIX = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \S{1,40} \S{1,40} \[[^\]]{0,120}\] ?")
_UVICORN_PREFIX = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,10}")
_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]{0,160}\.)?(?P<name>[A-Z]\w{0,80}(?:Error|Exception|Interrupt|NotFound))\b(?:: (?P<text>.{1,2000}))?$",
    re.ASCII,
)
_FRAME = re.compile(r'^\s{0,8}File "[^"]{1,400}", line \d{1,8}, in (?P<function>[\w<>.]{1,120})')
_STARTS_ANEW = re.compile(r"^(?:Traceback \(most|\s{0,8}File \"|During handling of|The above exception|\s*$)")
_VALIDATION = re.compile(r"validation errors? for (?P<model>\w{1,80})")


@dataclass(frozen=True)
class LogLine:
    """``(EngineCore pid=7) ERROR 07-01 12:00:00 [core.py:1] text``, taken apart."""

    process: str
    level: str
    text: str

    @property
    def is_error(self) -> bool:
        """Printed as an error, or printed bare as Python does."""
        return self.level in ("", "ERROR", "CRITICAL")


@dataclass(frozen=True)
class LoggedError:
    """An exception in a log."""

    process: str
    said: str
    """Its line as a person wants to read it; of a validation error, the field and what is wrong with it."""
    body: str
    """All of its lines, and a last one with the functions it came through: ``in load_model, load_weights``."""

    @property
    def passed_on(self) -> bool:
        """From a process in front of the engine, which mostly repeats what ended that."""
        return _FRONT.fullmatch(self.process) is not None


def take_apart(line: str) -> LogLine:
    """Process, level and text; a line without prefixes is the API server's."""
    process = _PROCESS_PREFIX.match(line := line[:_LINE_AT_MOST])
    rest = line[process.end() :] if process else line
    level = _LOG_PREFIX.match(rest) or _UVICORN_PREFIX.match(rest)
    return LogLine(
        process["process"] if process else API_SERVER,
        level["level"] if level else "",
        rest[level.end() :] if level else rest,
    )


def logged_errors(lines: Sequence[str]) -> list[LoggedError]:
    """Every exception that a traceback ends with or that is printed by itself, in the order of the log."""
    parts = [take_apart(line) for line in lines]
    found = []
    for index, part in enumerate(parts):
        if not part.is_error or (error := _ERROR.match(part.text)) is None:
            continue
        said = part.text if error["text"] else f"{part.text}{_where_it_happened(parts, index)}"
        following = _following(parts, index)
        found.append(
            LoggedError(
                part.process, _validation(said, following), "\n".join([said, *following, _frames(parts, index)])
            )
        )
    return found


def _following(parts: Sequence[LogLine], index: int) -> list[str]:
    """The further lines of a message of several lines."""
    following = []
    for part in parts[index + 1 : index + 1 + _BODY_LINES]:
        if (
            part.process != parts[index].process
            or part.level != parts[index].level
            or _STARTS_ANEW.match(part.text)
            or _ERROR.match(part.text)
        ):
            break
        following.append(part.text)
    return following


def _frames(parts: Sequence[LogLine], index: int) -> str:
    functions: list[str] = []
    for part in reversed(parts[max(0, index - 4 * _FRAMES) : index]):
        if part.process != parts[index].process:
            continue
        if part.text.startswith("Traceback (most"):
            break
        if (frame := _FRAME.match(part.text)) is not None:
            functions.append(frame["function"])
    return f"in {', '.join(reversed(functions))}" if functions else ""


def _where_it_happened(parts: Sequence[LogLine], index: int) -> str:
    """The line of code above an error that has no text, such as a bare ``AssertionError``."""
    for part in reversed(parts[max(0, index - 3) : index]):
        code = part.text.strip()
        if part.process == parts[index].process and code.strip("^~ ") and not _STARTS_ANEW.match(part.text):
            return f" at `{code}`"
    return ""


def _validation(said: str, following: Sequence[str]) -> str:
    """What Pydantic says only in the lines after its first: the field, then what is wrong with it."""
    validated = _VALIDATION.search(said)
    if validated is None:
        return said
    place = validated["model"]
    for detail in following[:4]:
        message, typed, _ = detail.partition(" [type=")  # which a very long message has lost
        if typed or detail.startswith("  Value error, "):
            return f"{place}: {message.strip().removeprefix('Value error, ')}"
        if not detail.startswith(" "):
            place += f".{detail.strip()}"
    return said
