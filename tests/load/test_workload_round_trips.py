"""The same prompts come out of every format that can hold them."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.load.workload import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(
    lambda text: bool(text.strip()) and "{{" not in text
)
NAMES = st.text("abc-ä世", min_size=1, max_size=5)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"prompt": TEXTS, "category": st.none() | NAMES, "max_tokens": st.none() | st.integers(1, 2**40)}
    ),
    min_size=1,
    max_size=8,
)


def json_lines(records: list[dict[str, Any]]) -> str:
    return "\r\n\n".join(json.dumps(record, ensure_ascii=False) for record in records)


def json_array(records: list[dict[str, Any]]) -> str:
    return json.dumps(records, indent=1)


def batch(records: list[dict[str, Any]]) -> str:
    lines = []
    for number, record in enumerate(records):
        body = {"model": "m", "prompt": record["prompt"], "max_tokens": record["max_tokens"]}
        line = {"custom_id": f"r{number}", "url": "/v1/completions", "body": body, "category": record["category"]}
        lines.append(json.dumps(line))
    return "\n".join(lines)


def csv_text(records: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["category", "prompt", "max_tokens"])
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


@pytest.mark.parametrize("as_text", [json_lines, json_array, batch, csv_text])
@settings(deadline=None)
@given(records=RECORDS)
def test_prompts_categories_and_lengths_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    as_text: Callable[[list[dict[str, Any]]], str],
    records: list[dict[str, Any]],
) -> None:
    path = tmp_path_factory.mktemp("trip") / "w.log"
    path.write_bytes(as_text(records).encode())
    found = [
        {"prompt": prompt.prompt, "category": prompt.category, "max_tokens": prompt.max_tokens}
        for prompt in read_workload(path, name="w").prompts
    ]
    assert found == records


@settings(deadline=None)
@given(turns=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), as_array=st.booleans())
def test_conversations_come_back_turn_by_turn(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[str, str]], *, as_array: bool
) -> None:
    from pytest_specdec.core.workload_options import WorkloadOptions

    said = [turn for asked, answer in turns for turn in (("human", asked), ("gpt", answer))]
    record = {"id": "x", "conversations": [{"from": who, "value": text} for who, text in said]}
    path = tmp_path_factory.mktemp("trip") / "w.json"
    path.write_text(json.dumps([record] if as_array else record))
    prompts = read_workload(path, name="w", options=WorkloadOptions(multi_turn="recorded")).prompts
    texts = [text for _, text in said]
    assert [[message["content"] for message in prompt.messages or ()] for prompt in prompts] == [
        texts[: 2 * turn + 1] for turn in range(len(turns))
    ]
