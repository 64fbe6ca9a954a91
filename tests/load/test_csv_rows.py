"""CSV logs: columns, delimiters, long and quoted cells, and rows that are broken."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.load.reading import read, refusal

if TYPE_CHECKING:
    from pathlib import Path

USER = {"role": "user", "content": "Why?"}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(content: str | bytes, name: str = "w.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_columns_are_mapped(write: Any) -> None:
    path = write('id,request,kind,n\r\n1,Why?,chat,5\r\n2,"a, ""b""\nc",,\r\n', "w.csv")
    workload = read(path, columns={"prompt": "request", "category": "kind", "max_tokens": "n"})
    assert [(p.prompt, p.category, p.max_tokens) for p in workload.prompts] == [
        ("Why?", "chat", 5),
        ('a, "b"\nc', None, None),
    ]
    assert workload.notes == ("2 records with keys that are not used: 'id' (2)",)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_seen_in_the_header(write: Any, delimiter: str) -> None:
    path = write(f"prompt{delimiter}category\na, b{delimiter}code\n", "w.tsv")
    assert [(p.prompt, p.category) for p in read(path).prompts] == [("a, b", "code")]


def test_a_byte_order_mark_and_blank_lines_are_fine(write: Any) -> None:
    path = write(b"\xef\xbb\xbf\n\nprompt\n\na\n", "w.csv")
    assert [prompt.text for prompt in read(path).prompts] == ["a"]


def test_messages_may_be_json_in_a_cell(write: Any) -> None:
    cell = json.dumps([USER]).replace('"', '""')
    assert read(write(f'messages\n"{cell}"\n', "w.csv")).prompts[0].messages == (USER,)


def test_cells_may_be_longer_than_the_csv_modules_limit(write: Any) -> None:
    before = csv.field_size_limit()
    assert len(read(write(f"prompt\n{'x' * 200_000}\n", "w.csv")).prompts[0].text) == 200_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prompt,category\na\n", "w.csv:2: 1 cell, and the header has 2"),
        ('prompt,category\n"a\nb",c,d\n', "w.csv:2: 3 cells, and the header has 2"),
        ('prompt,max_tokens\n"a\nb",1\nc,many\n', "w.csv:4: 'max_tokens' is 'many', not a whole number"),
        ("prompt,max_tokens\na,0\n", "w.csv:2: 'max_tokens' is 0"),
        ("prompt,category\n,chat\n", "w.csv:2: 'prompt' is null"),
        ("messages\n[not json\n", "w.csv:2: not JSON"),
        ('prompt\n"a"b\n', "w.csv:2: not CSV: "),
        ('prompt\na\n"b\n', "w.csv:3: not CSV: "),
        ("request,kind\na,b\n", "w.csv:1: no column is called 'prompt' or 'messages'"),
        ("request,kind\na,b\n", "there are 'request', 'kind'"),
        ("request,kind\na,b\n", "columns: {prompt: request, category: kind}"),
        ("prompt,prompt\na,b\n", "w.csv:1: two columns are called 'prompt'"),
    ],
)
def test_broken_rows_are_named(write: Any, text: str, problem: str) -> None:
    assert problem in refusal(write(text, "w.csv"))


@settings(deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(
            lambda text: text.strip() and "{{" not in text
        ),
        min_size=1,
        unique=True,
    )
)
def test_prompts_come_back_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, prompts: list[str]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["prompt", "category"])
    writer.writerows([prompt, "x"] for prompt in prompts)
    path = tmp_path_factory.mktemp("csv") / "w.csv"
    path.write_bytes(text.getvalue().encode())
    assert [prompt.prompt for prompt in read(path).prompts] == prompts
