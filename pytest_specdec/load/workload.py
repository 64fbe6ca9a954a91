"""A workload: the prompts that are sent to both servers, read from a file.

A file passes through in one go, record by record: rows (:mod:`containers` picks their reader) become conversations, these
prompts, and a sampler keeps some of them. Nothing is dropped without being counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.bad_lines import BadLines
from pytest_specdec.load.classify import class_of
from pytest_specdec.load.containers import is_folder_of_files, left_in_folder, readers_of, sha256_of
from pytest_specdec.load.prompt_reader import BadLine, BadRecordError, Prompt, counted
from pytest_specdec.load.record_reader import RecordReader
from pytest_specdec.load.sampling import Sampler
from pytest_specdec.load.turns import TurnTaker
from pytest_specdec.load.workload_summary import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_specdec.load.prompt_reader import RowReader

__all__ = ["Prompt", "Reading", "Workload", "read_workload"]


@dataclass(frozen=True)
class Workload:
    """Prompts and where they came from."""

    name: str
    path: Path
    sha256: str
    """Of the file's bytes as they are on disk; with several files or options that choose among prompts, of those too."""
    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()
    """What was ignored, cut or is odd, one sentence each."""
    weights: Mapping[str, float] | None = None
    """Share of each category in the traffic, where prompts were drawn by category."""
    format: str = ""
    """``JSON lines, prompt or messages``."""
    mix: Mapping[str, float] | None = None
    """Share of each category in every round's requests, together 1; None draws from all prompts alike."""


def read_workload(path: Path, *, name: str, options: WorkloadOptions | None = None) -> Workload:
    """Reads a workload: a file, a folder of files, or a dataset on the hub (``hf:owner/name``).

    Raises:
        WorkloadError: The file cannot be read, is not UTF-8, holds no prompt, has bad lines (all are named), or has too few
            prompts of a category for the shares that are asked for.
    """
    options = options or WorkloadOptions()
    passing = Reading(path, options)
    sampler = None
    if options.sample is not None:
        sampler = Sampler(options.sample, seed=options.seed, by_category=options.by is not None, shares=options.shares)
    prompts: list[Prompt] = []
    try:
        for prompt in passing.prompts():
            if sampler is None:
                prompts.append(prompt)
            else:
                sampler.add(prompt)
        if sampler is not None:
            prompts = [replace(prompt, index=index) for index, prompt in enumerate(sampler.sample())]
    except WorkloadError as error:
        raise error if error.where else WorkloadError(error.what, where=str(path), remedy=error.remedy) from None
    tally = Tally()
    for prompt in prompts:
        tally.add(prompt)
    return Workload(
        name=name,
        path=path,
        sha256=passing.sha256(),
        prompts=tuple(prompts),
        notes=(*passing.notes(), *(sampler.notes() if sampler else ()), *tally.notes()),
        weights=sampler.weights() if sampler else None,
        format=passing.format(),
    )


class Reading:
    """One pass over a workload's file; what it says about itself holds after :meth:`prompts` has ended."""

    def __init__(self, path: Path, options: WorkloadOptions) -> None:
        """Looks at the start of the file.

        Raises:
            WorkloadError: It cannot be read.
        """
        self._path = path
        self._options = options
        self._readers = readers_of(path, options)
        self._in_folder = is_folder_of_files(path)
        self._turns = TurnTaker(options.multi_turn)
        self._records: dict[RowReader, RecordReader] = {}
        self._counts: dict[RowReader, int] = {}
        self._bad = BadLines(path.name)
        self._classified = 0

    def prompts(self) -> Iterator[Prompt]:
        """Every usable prompt, in order; the index is its place among them.

        Raises:
            WorkloadError: At the end, when there were bad lines that are not to be skipped, or no prompt at all.
        """
        index = 0
        for reader in self._readers:
            records = self._records[reader] = RecordReader(self._options.columns, with_gaps=self._in_folder)
            before = index
            for found in self._found(reader, records):
                for prompt in found:
                    yield self._completed(prompt, index)
                    index += 1
            self._counts[reader] = index - before
        if self._bad.count and self._options.on_bad_line == "error":
            raise self._bad.error(str(self._path))
        if not index:
            skipped = (
                f"; {counted(self._bad.count, 'bad line')} skipped\n{self._bad.listed()}" if self._bad.count else ""
            )
            raise WorkloadError(
                f"no prompt in the {'folder' if self._in_folder else 'file'}{skipped}",
                where=str(self._path),
                remedy=self._readers[0].example,
            )

    def format(self) -> str:
        """``JSON array, ShareGPT conversations``; each kind once where there are several files."""
        kinds = [f"{reader.container}, {records.form}" for reader, records in self._records.items() if records.form]
        return "; ".join(dict.fromkeys(kinds))

    def sha256(self) -> str:
        """Of the bytes, and of the options where they choose among prompts."""
        return sha256_of(self._readers, self._options)

    def notes(self) -> tuple[str, ...]:
        """What was ignored, cut, skipped or added."""
        notes = []
        if self._in_folder:
            files = [f"{reader.name} ({self._counts[reader]})" for reader in self._readers]
            left = left_in_folder(self._path)
            notes.append(
                f"{counted(len(files), 'file')} of the folder: {', '.join(files)}"
                + (f"; not read: {', '.join(left)}" if left else "")
            )
        for reader, records in self._records.items():
            of_file = f"{reader.name}: " if self._in_folder else ""
            notes += [f"{of_file}{note}" for note in (*reader.notes(), *records.notes())]
        notes += self._turns.notes()
        if self._classified:
            notes.append(f"{counted(self._classified, 'prompt')} without a category got one by rules")
        if self._bad.count:
            notes.append(f"{counted(self._bad.count, 'bad line')} skipped: {self._bad.listed(separator='; ')}")
        return tuple(notes)

    def _found(self, reader: RowReader, records: RecordReader) -> Iterator[list[Prompt]]:
        for row in reader.rows():
            self._bad.rows += 1
            if isinstance(row, BadLine):
                self._bad.add(row)
                continue
            try:
                yield self._turns.prompts(records.conversation(row.data))
            except BadRecordError as error:
                self._bad.add(BadLine(row.place, str(error), error.columns))

    def _completed(self, prompt: Prompt, index: int) -> Prompt:
        category = prompt.category
        if category is None and self._options.classify:
            category = class_of(prompt)
            self._classified += 1
        tokens = self._options.max_tokens if prompt.max_tokens is None else prompt.max_tokens
        return replace(prompt, index=index, category=category, max_tokens=tokens)
