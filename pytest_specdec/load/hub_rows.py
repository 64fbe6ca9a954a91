"""Workloads from the Hugging Face hub, streamed with `datasets` where that is installed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import HUB
from pytest_specdec.load.parquet_rows import table_row
from pytest_specdec.load.prompt_reader import BadLine, Row, RowReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class HubRows(RowReader):
    """Reads one split of a dataset; ``hf:owner/name`` or, at one commit or tag, ``hf:owner/name@revision``."""

    container = "Hugging Face dataset"
    example = "Say which column is which, such as `columns: {prompt: question}`."

    def __init__(self, name: str, *, split: str | None, subset: str | None) -> None:
        self.name = self._name = name
        self._split = split
        self._subset = subset
        self._hash = hashlib.sha256()

    def rows(self) -> Iterator[Row | BadLine]:
        """One for each row.

        Raises:
            WorkloadError: `datasets` is not installed, or does not get the data.
        """
        number = 0
        try:
            for data in self._loaded():
                number += 1
                row = table_row(data)
                self._hash.update(json.dumps(row, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))
                yield Row(f"{self._name}: row {number}", row)
        except (WorkloadError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - the library raises a dozen kinds of its own and of its transports
            words = str(error).strip().splitlines() or [type(error).__name__]
            raise WorkloadError(
                f"the dataset cannot be read after row {number}: {type(error).__name__}: {words[0][:300]}",
                where=self._name,
                remedy="Check name, split and subset, the network, HF_HUB_OFFLINE and, for a gated dataset, HF_TOKEN; "
                "or download the file and name its path.",
            ) from None

    def sha256(self) -> str:
        """Of the rows that were read."""
        return self._hash.hexdigest()

    def _loaded(self) -> Iterable[dict[str, Any]]:
        try:
            import datasets  # type: ignore[import-not-found, unused-ignore] # optional
        except ImportError:
            raise WorkloadError(
                "a dataset on the Hugging Face hub, and `datasets` is not installed",
                where=self._name,
                remedy="Install it with `pip install 'pytest-specdec[hub]'`, or download the file and name its path.",
            ) from None
        name, _, revision = self._name.removeprefix(HUB).partition("@")
        if not name.strip("/"):
            raise WorkloadError("names no dataset", where=self._name, remedy="Such as hf:owner/name.")
        loaded = datasets.load_dataset(name, self._subset, split=self._split, revision=revision or None, streaming=True)
        if self._split is None:
            if len(loaded) != 1:
                raise WorkloadError(
                    f"the dataset has {len(loaded)} splits: {', '.join(loaded)}",
                    where=self._name,
                    remedy=f"Say which one, such as `split: {next(iter(loaded), 'train')}`.",
                )
            loaded = next(iter(loaded.values()))
        rows: Iterable[dict[str, Any]] = loaded
        return rows
