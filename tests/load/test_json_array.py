"""JSON arrays are read item by item: with the line of each, whole at any size, and no further than they are sound."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.json_array import JsonArray
from pytest_specdec.load.prompt_reader import Row
from pytest_specdec.load.workload import read_workload

if TYPE_CHECKING:
    from pathlib import Path


def values(path: Path) -> list[Any]:
    rows = list(JsonArray(path).rows())
    assert all(isinstance(row, Row) for row in rows)
    return [row.data for row in rows if isinstance(row, Row)]


@settings(deadline=None)
@given(
    st.lists(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(codec="utf-8")),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        )
    ),
    st.sampled_from([None, 0, 2]),
)
def test_items_are_what_the_json_module_reads(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("array") / "w.json"
    path.write_text(json.dumps(items, indent=indent, ensure_ascii=False), encoding="utf-8")
    assert values(path) == items


def test_the_place_is_the_line_where_an_item_begins(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text('[\n  {"a": 1},\n\n  {"a":\n 2}, {"a": 3}\n]\n')
    assert [row.place for row in JsonArray(path).rows()] == [
        f"{path}:2 (item 1)",
        f"{path}:4 (item 2)",
        f"{path}:5 (item 3)",
    ]


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(b"\xef\xbb\xbf [1]")
    assert values(path) == [1]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('[{"prompt": "a"},\n {"prompt": "b"', ":2: not JSON", "in item 2 of the array"),
        ('[{"prompt": "a"}\n {"prompt": "b"}]', ":2: not JSON", "in item 2 of the array"),
        ('[{"prompt": "a"},\n]', ":2: not JSON", "in item 2 of the array"),
        ('[{"prompt": "a"}]\n[1]', ":2: not JSON", "in item 2 of the array"),
        ('[{"prompt": "\xe9"}]', ":1: not JSON", "in item 1 of the array"),
        ('[{"prompt": NaN}]', ":1: not JSON", "in item 1 of the array"),
    ],
)
def test_where_an_array_breaks_off_is_named(tmp_path: Path, text: str, place: str, words: str) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(WorkloadError) as refused:
        read_workload(path, name="w", options=WorkloadOptions(on_bad_line="skip"))
    assert f"{path}{place}" in str(refused.value)
    assert words in str(refused.value)


def test_items_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text('[{"prompt": "a"},\n1,\n{"prompt": 2}]')
    with pytest.raises(WorkloadError) as refused:
        read_workload(path, name="w")
    assert f"{path}:2 (item 2): a number, not an object" in str(refused.value)
    assert f"{path}:3 (item 3): 'prompt' is a number" in str(refused.value)


@pytest.mark.parametrize("layout", ["array in one line", "array over lines", "JSON lines"])
def test_a_sample_takes_far_less_memory_than_the_file(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "w.json"
    records = [
        {"conversations": [{"from": "human", "value": f"{n} " + "x" * 4000}, {"from": "gpt", "value": "y" * 4000}]}
        for n in range(1500)
    ]
    if layout == "JSON lines":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        path.write_text(json.dumps(records, indent=1 if layout == "array over lines" else None))
    del records
    size = path.stat().st_size
    options = WorkloadOptions(sample=20)
    read_workload(path, name="w", options=options)  # imports and caches are no part of it
    tracemalloc.start()
    try:
        workload = read_workload(path, name="w", options=options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(workload.prompts) == 20
    assert size > 12_000_000
    assert peak < size / 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\ud83d", None),
        (r"\ud83d\u0041", None),
        (r"\ude00\ud83d", None),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", None),
        (r"\\\\ud83d", r"\\ud83d"),
    ],
)
@pytest.mark.parametrize("padding", range(16))
def test_half_a_surrogate_pair_makes_a_bad_line_wherever_a_piece_ends(
    tmp_path: Path, text: str, expected: str | None, padding: int
) -> None:
    path = tmp_path / "w.json"
    before = "x" * (65536 - padding)
    path.write_text(f'["{before}{text}", 2]')
    first, second = JsonArray(path).rows()
    assert (first.data if isinstance(first, Row) else None) == (expected and before + expected)
    assert isinstance(second, Row)
