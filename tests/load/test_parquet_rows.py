"""Parquet logs, read where pyarrow is installed and refused with the extra's name where it is not."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.load.reading import read, refusal

if TYPE_CHECKING:
    from pathlib import Path

USER = {"role": "user", "content": "Why?"}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns: dict[str, list[Any]], name: str = "w.parquet") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table(columns), path)
        return path

    return write


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.log"
    path.write_bytes(b"PAR1 and so on PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refusal(path)
    assert "a Parquet file, and pyarrow is not installed" in message
    assert "pytest-specdec[parquet]" in message


def test_columns_are_read_and_mapped(write: Any) -> None:
    path = write({"request": ["a", "b"], "kind": ["code", None], "n": [5, None], "answer": ["x", "y"]})
    workload = read(path, columns={"prompt": "request", "category": "kind", "max_tokens": "n"})
    assert [(p.prompt, p.category, p.max_tokens) for p in workload.prompts] == [("a", "code", 5), ("b", None, None)]
    assert workload.notes == ("columns that are not used: 'answer'",)
    assert workload.format == "Parquet, prompt or messages"


def test_the_checksum_is_that_of_the_file(write: Any) -> None:
    path = write({"prompt": ["a"]})
    assert read(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_messages_are_sent_without_the_keys_that_only_others_have(write: Any) -> None:
    other = {"role": "user", "content": "Who?", "name": "Ada"}
    path = write({"messages": [[USER], [other]]})
    assert [prompt.messages for prompt in read(path).prompts] == [(USER,), (other,)]


def test_speed_bench_folders_hold_parquet_too(write: Any) -> None:
    folder = write({"turns": [["a"], ["b", "c"]], "category": ["qa", "qa"]}, "speed/test.parquet").parent
    workload = read(folder)
    assert [prompt.text for prompt in workload.prompts] == ["a", "b"]
    assert workload.notes[0] == "1 file of the folder: test.parquet (2)"


def test_rows_that_cannot_be_used_are_named(write: Any) -> None:
    path = write({"prompt": [*(f"{n}" for n in range(100)), "", None]})
    message = refusal(path)
    assert f"{path}: row 101: 'prompt' is empty" in message
    assert f"{path}: row 102: 'prompt' is null" in message


def test_a_file_without_a_column_of_prompts_is_explained(write: Any) -> None:
    message = refusal(write({"request": ["a"], "kind": ["b"]}))
    assert "no column that could hold prompts; there are 'request', 'kind'" in message
    assert "columns: {prompt: request" in message


def test_a_mapped_column_that_is_missing_is_named_for_each_row(write: Any) -> None:
    message = refusal(write({"prompt": ["a"], "category": ["x"]}), columns={"prompt": "request"})
    assert "row 1: 'prompt' is null" in message


def test_a_file_that_was_cut_is_named(write: Any) -> None:
    path = write({"prompt": ["a" * 1000]})
    path.write_bytes(path.read_bytes()[:200])
    assert f"{path}: cannot be read as Parquet after row 0" in refusal(path)
