"""The lines of a workload's file that cannot be used: counted, quoted, and what can be done about them.

A file whose lines all fail in the same way is not a file with bad lines but one of another form; it is told once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.prompt_reader import counted

if TYPE_CHECKING:
    from pytest_specdec.load.prompt_reader import BadLine

MAX_LISTED = 20
"""So many bad lines are quoted; the rest is counted."""
_ALIKE_AT_LEAST = 3
_LIKELY = ("question", "instruction", "query", "request", "input", "text", "content")
"""Names under which prompts stand in other people's files, the likeliest first."""


class BadLines:
    """Collects bad lines in the order of the file."""

    def __init__(self, file: str) -> None:
        """Starts with none; ``file`` is the file's name, for remedies."""
        self.count = 0
        self.rows = 0
        """Of all lines, good and bad; to be counted by the reader."""
        self._file = file
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, BadLine] = {}
        self._listed: list[BadLine] = []

    def add(self, line: BadLine) -> None:
        """Take note of one."""
        self.count += 1
        kind = _kind(line)
        self._kinds[kind] += 1
        self._first.setdefault(kind, line)
        if len(self._listed) < MAX_LISTED:
            self._listed.append(line)

    def listed(self, separator: str = "\n") -> str:
        """What is wrong where; what most lines of the file share is said once."""
        shared = self._shared()
        others = [line for line in self._listed if _kind(line) != shared]
        listed = [f"{line.place}: {line.problem}" for line in others]
        rest = self.count - len(others)
        if shared is not None:
            number, first = self._kinds[shared], self._first[shared]
            all_of = "all" if number == self.rows else f"{number} of"
            listed.insert(0, f"{first.place}: {first.problem}; so it is with {all_of} {self.rows} records")
            rest -= number
        if rest:
            listed.append(f"and {rest} more")
        return separator.join(listed)

    def error(self, where: str) -> WorkloadError:
        """For a file whose bad lines are not to be skipped."""
        return WorkloadError(
            f"{counted(self.count, 'bad line')} in the workload\n{self.listed()}", where=where, remedy=self._remedy()
        )

    def _shared(self) -> str | None:
        """The kind of fault of more than half of all records, if there is one."""
        kind, number = self._kinds.most_common(1)[0] if self._kinds else ("", 0)
        return kind if number >= _ALIKE_AT_LEAST and 2 * number > self.rows else None

    def _remedy(self) -> str:
        # A file of one or two lines can be of another form, too.
        kind = self._shared() or (next(iter(self._kinds)) if len(self._kinds) == 1 else "")
        first = self._first.get(kind)
        if first is not None and first.columns is not None and 2 * self._kinds[kind] > self.rows:
            ours, theirs = first.columns
            entry = f"`workloads: {{{self._file}: {{path: {self._file}, columns: {{{ours}: {theirs}}}}}}}`"
            return f"Say which of its keys is which with `columns: {{{ours}: {theirs}}}`. In a config: {entry}."
        return (
            "Correct or delete them: a prompt that is left out would change what is measured. "
            "`on_bad_line: skip` in the config leaves them out and says so."
        )


def likely_columns(record: dict[str, Any]) -> tuple[str, str] | None:
    """Which key of a record of unknown form holds what is to be sent: our name for it, and the record's; None if none does."""
    for name, value in record.items():
        if isinstance(value, list) and value:
            if isinstance(value[0], dict) and "role" in value[0]:
                return "messages", name
            if isinstance(value[0], dict) and {"from", "value"} <= value[0].keys():
                return "conversations", name
    texts = [name for name, value in record.items() if isinstance(value, str) and value.strip()]
    ranked = [name for likely in _LIKELY for name in texts if name.lower() == likely]
    return ("prompt", (ranked or texts)[0]) if texts else None


def _kind(line: BadLine) -> str:
    """What is wrong, without the details in brackets."""
    return line.problem.partition(" (")[0]
