"""The two tables that read vLLM's log, as they lie beside this module: why a server failed, and what vLLM changed by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from pytest_specdec.core.vllm_versions import at_least

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm

Event = Literal["killed", "silence", "timeout"]
"""A server that was killed with SIGKILL, wrote nothing for too long, or was not ready in time."""


@dataclass(frozen=True)
class Circumstances:
    """What is known about a server beside its log; None where it is not known."""

    arm: Arm | None = None
    method: str | None = None
    version: str | None = None
    exit_code: int | None = None
    event: Event | None = None


@dataclass(frozen=True)
class When:
    """Under which circumstances an entry applies. A condition on something that is not known does not hold."""

    arm: Arm | None = None
    methods: tuple[str, ...] = ()
    since: str | None = None
    """The first version of vLLM to which the entry applies."""
    exit_code: int | None = None

    def holds(self, here: Circumstances) -> bool:
        """Whether the entry applies."""
        return (
            (self.arm is None or self.arm == here.arm)
            and (not self.methods or here.method in self.methods)
            and (self.since is None or at_least(here.version, self.since))
            and (self.exit_code is None or self.exit_code == here.exit_code)
        )


@dataclass(frozen=True)
class CauseEntry:
    """One reason why servers fail; the fields are described in ``causes.yaml``."""

    id: str
    patterns: tuple[re.Pattern[str], ...]
    any_line: bool
    event: Event | None
    when: When
    explanation: str
    remedy: str
    sample: tuple[str, ...]
    port_taken: bool = False
    memory: bool = False


@dataclass(frozen=True)
class FallbackEntry:
    """One thing that vLLM changes by itself; the fields are described in ``fallbacks.yaml``."""

    id: str
    patterns: tuple[re.Pattern[str], ...]
    sentence: str
    sample: str


@cache
def causes() -> tuple[CauseEntry, ...]:
    """The table of causes, in the order in which they are tried."""
    return tuple(_cause(row) for row in _rows("causes.yaml"))


@cache
def fallbacks() -> tuple[FallbackEntry, ...]:
    """The table of what vLLM changes by itself."""
    return tuple(
        FallbackEntry(row["id"], _compiled(row["patterns"]), row["sentence"].strip(), row["sample"])
        for row in _rows("fallbacks.yaml")
    )


def _rows(name: str) -> list[dict[str, Any]]:
    import yaml

    text = (files("pytest_specdec") / "serving" / name).read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = yaml.safe_load(text)
    return rows


def _compiled(patterns: list[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.ASCII) for pattern in patterns)


def _cause(row: dict[str, Any]) -> CauseEntry:
    when = row.get("when", {})
    return CauseEntry(
        id=row["id"],
        patterns=_compiled(row.get("patterns", [])),
        any_line=row.get("any_line", False),
        event=row.get("event"),
        when=When(
            arm=when.get("arm"),
            methods=tuple(when.get("methods", ())),
            since=when.get("since"),
            exit_code=when.get("exit_code"),
        ),
        explanation=row["explanation"].strip(),
        remedy=row["remedy"].strip(),
        sample=tuple(row.get("sample", "").strip().splitlines()),
        port_taken=row.get("port_taken", False),
        memory=row.get("memory", False),
    )
