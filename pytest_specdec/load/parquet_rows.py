"""Workloads as Parquet, read batch by batch with pyarrow where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.file_bytes import FileBytes
from pytest_specdec.load.prompt_reader import BadLine, Row, RowReader
from pytest_specdec.load.record_reader import USED_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_ROWS_AT_ONCE = 64


class ParquetRows(RowReader):
    """Reads the columns of a Parquet file that can hold what is needed."""

    container = "Parquet"
    example = "Write a column `prompt` of text, or `messages` of lists of role and content."

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.name = path.name
        self._path = path
        self._columns = columns
        self._left: list[str] = []

    def rows(self) -> Iterator[Row | BadLine]:
        """One for each row.

        Raises:
            WorkloadError: pyarrow is not installed, or cannot read the file.
        """
        try:
            import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore] # optional; it has no stubs
            from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore] # as above
        except ImportError:
            raise WorkloadError(
                "a Parquet file, and pyarrow is not installed",
                where=str(self._path),
                remedy="Install it with `pip install 'pytest-specdec[parquet]'`, or export the data as JSON lines.",
            ) from None
        number = 0
        try:
            with parquet.ParquetFile(self._path) as file:
                names = file.schema_arrow.names
                wanted = USED_KEYS | {name.partition(".")[0] for name in self._columns.values()}
                wanted |= set(self._columns.values())
                self._left = [name for name in names if name not in wanted]
                used = [name for name in names if name in wanted]
                if not used:
                    raise WorkloadError(
                        f"no column that could hold prompts; there are {', '.join(map(repr, names))}",
                        where=str(self._path),
                        remedy="Say which column is which, such as `columns: {prompt: request, category: kind}`.",
                    )
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=used):
                    for data in batch.to_pylist():
                        number += 1
                        yield Row(f"{self._path}: row {number}", table_row(data))
        except (pa.ArrowException, OSError) as error:
            raise WorkloadError(
                f"cannot be read as Parquet after row {number}: {str(error).splitlines()[0]}",
                where=str(self._path),
                remedy="Write the file again: it may have been cut.",
            ) from None

    def sha256(self) -> str:
        """Of the file's bytes."""
        file = FileBytes(self._path)
        for _ in file.pieces():
            pass
        return file.sha256()

    def notes(self) -> tuple[str, ...]:
        """Columns that were not read."""
        return (f"columns that are not used: {', '.join(map(repr, self._left))}",) if self._left else ()


def table_row(data: dict[str, Any]) -> dict[str, Any]:
    """A row whose nested objects lack the keys that only other rows have, which a table fills with null."""
    return {name: _without_nulls(value) for name, value in data.items()}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
