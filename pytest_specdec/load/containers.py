"""Which kind of file a workload is, told by its first bytes, and the reader for it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions, is_on_hub
from pytest_specdec.load.csv_rows import CsvRows
from pytest_specdec.load.file_bytes import reading
from pytest_specdec.load.hub_rows import HubRows
from pytest_specdec.load.json_array import JsonArray
from pytest_specdec.load.json_lines import JsonLines
from pytest_specdec.load.parquet_rows import ParquetRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_specdec.load.prompt_reader import RowReader

_START = 65536
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_IN_FOLDERS = (".jsonl", ".ndjson", ".parquet")


def readers_of(path: Path, options: WorkloadOptions) -> tuple[RowReader, ...]:
    """One reader, or for a folder one for each of its files, in the order of their names.

    Raises:
        WorkloadError: There is no such file, or nothing in it or in the folder that could be read.
    """
    if is_on_hub(path):
        return (HubRows(str(path), split=options.split, subset=options.subset),)
    if path.is_dir():
        return tuple(_reader(file, options) for file in _files_in(path))
    return (_reader(path, options),)


def is_folder_of_files(path: Path) -> bool:
    """Whether the workload is a folder, as SPEED-Bench comes."""
    return not is_on_hub(path) and path.is_dir()


def left_in_folder(folder: Path) -> tuple[str, ...]:
    """Names of what a folder holds beside the files that are read."""
    read = {path.name for path in _files_in(folder)}
    return tuple(sorted(path.name for path in folder.iterdir() if path.name not in read))


def sha256_of(readers: Sequence[RowReader], options: WorkloadOptions) -> str:
    """Of the file's bytes; with several files or options that choose among prompts, of the checksums and the options."""
    fingerprint = options.fingerprint()
    if len(readers) == 1 and not fingerprint:
        return readers[0].sha256()
    parts: Iterable[str] = (*(reader.sha256() for reader in readers), fingerprint)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _reader(path: Path, options: WorkloadOptions) -> RowReader:
    with reading(path), path.open("rb") as file:
        # The start is read twice, and what comes through a pipe can be read only once.
        if not file.seekable():
            raise WorkloadError("not a file but a pipe", where=str(path), remedy="Write it to a file first.")
        start = file.read(_START)
    if start.startswith(b"PAR1"):
        return ParquetRows(path, options.columns)
    for magic, name in _PACKED.items():
        if start.startswith(magic):
            raise WorkloadError(f"packed with {name}", where=str(path), remedy="Unpack it first.")
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return JsonArray(path)
    if not text or text.startswith(b"{") or path.suffix.lower() in _JSON_SUFFIXES:
        return JsonLines(path)
    return CsvRows(path, options.columns)


def _files_in(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _IN_FOLDERS and path.is_file())
    if files:
        return files
    below = sorted({path.parent for path in folder.rglob("*") if path.suffix.lower() in _IN_FOLDERS})
    remedy = f"Name one of its folders: {', '.join(map(str, below[:10]))}." if below else "Name the file of prompts."
    raise WorkloadError("a folder without JSON lines or Parquet files", where=str(folder), remedy=remedy)
