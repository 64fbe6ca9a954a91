"""Every error the plugin raises on purpose.

::

    SpecDecError
    ├── ConfigError            a config, option or ini value is wrong      → pytest exits 4 before anything starts
    ├── MarkError              a spec_slo / spec_load mark is wrong         → collection error, exit 2
    ├── WorkloadError          a workload file cannot be used               → as where it is read
    ├── ScrapeError            text from /metrics cannot be used
    ├── ResultFileError        a result file cannot be read
    └── CannotMeasure          there is no number to judge                  → the test is an ERROR, never FAILED
        ├── LaunchError        a server did not come up
        ├── ServerDied         a server went away while it was needed
        ├── RequestsFailed     more requests failed than ``max_failures`` allows
        └── InvalidMeasurement numbers exist, and must not be believed

Each says what happened, where (file and line, or key path), and what to do about it. Secrets that can be told by their name or
shape never get into one, whoever raises it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_specdec.core.masked_text import masked_text


class SpecDecError(Exception):
    """Base of all errors of this package.

    Args:
        what: One sentence: what is wrong.
        where: File and line, key path, log file, or URL; empty when the message itself says it.
        remedy: What the user can do; empty only when there is nothing to do.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = (masked_text(text) for text in (what, where, remedy))
        super().__init__(self.what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  {self.remedy}" if self.remedy else text


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd in what the user wrote."""

    severity: str
    """``error``, ``warning`` or ``note``."""
    where: str
    """File, with line or key path: ``eagle3.json: speculative_config.num_speculative_tokens``."""
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        stop = "" if text.endswith(("?", ".")) else "."
        return masked_text(f"{text}{stop} {self.remedy}" if self.remedy else text)


class ConfigError(SpecDecError):
    """One or more findings of severity ``error``, all reported at once."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("\n".join(str(finding) for finding in findings))


class MarkError(SpecDecError):
    """A ``spec_slo`` or ``spec_load`` mark that cannot be understood."""


class WorkloadError(SpecDecError):
    """A workload file with bad lines, or without a usable one."""


class ScrapeError(SpecDecError):
    """A Prometheus scrape that holds no vLLM counters, or counters that contradict each other."""


class ResultFileError(SpecDecError):
    """A result file that is missing, damaged, or of a schema this version cannot read."""


class CannotMeasure(SpecDecError):  # noqa: N818 - it is a state of affairs, and the name users see
    """There is no number to judge; pytest shows the test as ERROR."""

    def __str__(self) -> str:
        # What happened comes first: pytest's summary shows the start of the first line, and a path would fill it.
        return "\n  ".join(part for part in (self.what, self.where and f"See {self.where}", self.remedy) if part)


class LaunchError(CannotMeasure):
    """A server did not come up."""

    launched = False
    """Whether a process was started; not so when the config or the installation forbids it."""
    memory = False
    """Whether it found too little room for what it was to hold; not so where too little was free before it took anything."""


class ServerDied(CannotMeasure):
    """A server that had been up went away."""


class RequestsFailed(CannotMeasure):
    """More requests failed than ``max_failures`` allows."""


class InvalidMeasurement(CannotMeasure):
    """The numbers exist but contradict each other or the set-up, so no verdict may rest on them."""


class DisturbedMeasurement(InvalidMeasurement):
    """A run during which client or device were not fit to measure; it may be over by the next one."""
