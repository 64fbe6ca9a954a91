"""Datasets on the hub, through a stand-in for the `datasets` library that has its interface and no network."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.workload import Workload, read_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS: list[dict[str, Any]] = [
    {"question": "Why?", "kind": "qa", "answer": None},
    {"question": "Who?", "kind": "qa", "answer": "me"},
]


class Hub:
    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.splits: dict[str, list[dict[str, Any]]] = {"train": ROWS}
        self.failure: Exception | None = None
        self.breaks_after: int | None = None

    def load_dataset(self, name: str, subset: str | None, **keys: Any) -> Any:
        self.asked = {"name": name, "subset": subset, **keys}
        if self.failure:
            raise self.failure
        if keys["split"] is None:
            return {split: self.rows(rows) for split, rows in self.splits.items()}
        return self.rows(self.splits[keys["split"]])

    def rows(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(rows):
            if number == self.breaks_after:
                raise ConnectionError("the line is dead\nand more")
            yield row


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=hub.load_dataset))
    return hub


def read(name: str = "hf:owner/name", **options: Any) -> Workload:
    options = {"columns": {"prompt": "question", "category": "kind"}, **options}
    return read_workload(Path(name), name="test", options=WorkloadOptions(**options))


def refusal(name: str = "hf:owner/name", **options: Any) -> str:
    with pytest.raises(WorkloadError) as refused:
        read(name, **options)
    return str(refused.value)


def test_rows_are_streamed_and_mapped(hub: Hub) -> None:
    workload = read("hf:owner/name@v2", split="train", subset="small")
    assert [(p.prompt, p.category) for p in workload.prompts] == [("Why?", "qa"), ("Who?", "qa")]
    assert workload.format == "Hugging Face dataset, prompt or messages"
    assert hub.asked == {
        "name": "owner/name",
        "subset": "small",
        "split": "train",
        "revision": "v2",
        "streaming": True,
    }


def test_the_only_split_needs_no_name(hub: Hub) -> None:
    assert len(read().prompts) == 2
    assert hub.asked["revision"] is None


def test_several_splits_are_named(hub: Hub) -> None:
    hub.splits["test"] = ROWS
    message = refusal()
    assert "hf:owner/name: the dataset has 2 splits: train, test" in message
    assert "`split: train`" in message


def test_the_checksum_follows_the_rows(hub: Hub) -> None:
    before = read().sha256
    assert read().sha256 == before
    hub.splits["train"] = [*ROWS, {"question": "What?", "kind": "qa"}]
    assert read().sha256 != before


def test_bad_rows_are_named(hub: Hub) -> None:
    hub.splits["train"] = [*ROWS, {"question": 3, "kind": "qa"}]
    assert "hf:owner/name: row 3: 'prompt' is a number" in refusal()


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    message = refusal()
    assert "`datasets` is not installed" in message
    assert "pytest-specdec[hub]" in message


def test_an_unreachable_hub_is_explained(hub: Hub) -> None:
    hub.failure = ConnectionError("Couldn't reach the hub\nlong story")
    message = refusal()
    assert "the dataset cannot be read after row 0: ConnectionError: Couldn't reach the hub" in message
    assert "HF_HUB_OFFLINE" in message
    assert "long story" not in message


def test_a_stream_that_breaks_is_no_shorter_dataset(hub: Hub) -> None:
    hub.breaks_after = 1
    assert "cannot be read after row 1: ConnectionError: the line is dead" in refusal(on_bad_line="skip")


@pytest.mark.usefixtures("hub")
def test_a_name_is_needed() -> None:
    assert "names no dataset" in refusal("hf:")
