"""Workload files are read as they are, and refused with every bad line named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.containers import readers_of
from pytest_specdec.load.prompt_reader import BadRecordError, Prompt
from pytest_specdec.load.record_reader import RecordReader
from pytest_specdec.load.workload import Workload, read_workload
from pytest_specdec.load.workload_summary import Tally, WorkloadSummary

DATASETS = Path(__file__).parent.parent / "data" / "datasets"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(*lines: Any, name: str = "w.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return path

    return write


def fit_to_send(text: str) -> bool:
    return bool(text.strip()) and "{{" not in text


def read(path: Path) -> Workload:
    return read_workload(path, name="test")


def refusal(path: Path) -> str:
    with pytest.raises(WorkloadError) as refused:
        read(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "prompts", "max_tokens"),
    [
        ("bom", ["bom line", "crlf"], [5, 6]),
        ("crlf", ["a", "b"], [None, None]),
        ("blank", ["a", "b"], [None, None]),
        ("date", ["2024-01-02", "2024-01-03"], [None, None]),
    ],
)
def test_handed_files_are_read(name: str, prompts: list[str], max_tokens: list[int | None]) -> None:
    workload = read(DATASETS / f"{name}.jsonl")
    assert [prompt.prompt for prompt in workload.prompts] == prompts
    assert [prompt.max_tokens for prompt in workload.prompts] == max_tokens
    assert [prompt.index for prompt in workload.prompts] == [0, 1]
    assert workload.notes == ()


def test_a_broken_line_is_named() -> None:
    message = refusal(DATASETS / "broken.jsonl")
    assert "broken.jsonl:2: not JSON" in message
    assert "broken.jsonl:1" not in message


def test_numbers_are_not_prompts() -> None:
    assert "num.jsonl:1: 'prompt' is a number, not a string" in refusal(DATASETS / "num.jsonl")


def test_the_hash_is_that_of_the_file() -> None:
    path = DATASETS / "bom.jsonl"
    assert read(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_all_bad_lines_are_named_at_once(write: Any) -> None:
    message = refusal(write({"prompt": 1}, {"prompt": "fine"}, {"prompt": ""}, "nonsense"))
    assert "3 bad lines" in message
    assert [f"w.jsonl:{number}:" in message for number in (1, 2, 3, 4)] == [True, False, True, True]


def test_the_list_of_bad_lines_is_bounded(write: Any) -> None:
    message = refusal(write(*[{"prompt": 1}, {"prompt": None}, {"prompt": "", "n": 1}] * 10))
    assert "30 bad lines" in message
    assert "w.jsonl:20:" in message
    assert "w.jsonl:21:" not in message
    assert "and 10 more" in message


def test_what_all_lines_share_is_said_once_with_the_mapping_that_helps(write: Any) -> None:
    message = refusal(write(*[{"label": "x", "text": f"Tell me about {n}."} for n in range(8)]))
    assert message.count("neither 'prompt' nor 'messages'") == 1
    assert "w.jsonl:1: neither 'prompt' nor 'messages' (found 'label', 'text'); so it is with all 8 records" in message
    assert "`workloads: {w.jsonl: {path: w.jsonl, columns: {prompt: text}}}`" in message
    assert "on_bad_line" not in message


def test_the_mapping_that_is_advised_works(write: Any) -> None:
    lines = [{"label": "x", "text": f"Tell me about {n}."} for n in range(8)]
    workload = read_workload(write(*lines), name="test", options=WorkloadOptions(columns={"prompt": "text"}))
    assert len(workload.prompts) == 8


def test_what_most_lines_share_is_said_once_beside_the_others(write: Any) -> None:
    message = refusal(write(*[{"text": "a"}] * 5, {"prompt": 1}, {"prompt": "fine"}))
    assert "w.jsonl:1: neither 'prompt' nor 'messages' (found 'text'); so it is with 5 of 7 records" in message
    assert "w.jsonl:6: 'prompt' is a number" in message
    assert "w.jsonl:2" not in message


@pytest.mark.parametrize(
    ("record", "columns"),
    [
        ({"id": "a1", "Question": "Why?"}, "{prompt: Question}"),
        ({"log": "Why?"}, "{prompt: log}"),
        ({"id": "a1", "dialog": [{"role": "user", "content": "Why?"}]}, "{messages: dialog}"),
        ({"id": "a1", "chat": [{"from": "human", "value": "Why?"}]}, "{conversations: chat}"),
    ],
)
def test_the_likely_column_is_advised(write: Any, record: dict[str, Any], columns: str) -> None:
    assert f"columns: {columns}" in refusal(write(record))


def test_lines_without_any_text_get_no_mapping(write: Any) -> None:
    message = refusal(write(*[{"n": 1}] * 4))
    assert "columns" not in message
    assert "Correct or delete them" in message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"prompt"', "the line ends too early, at column 10: expecting ':' delimiter there"),
        ('{"prompt": ', "the line ends too early, at column 11: expecting value there"),
        ('{"prompt": "Tell', "the line ends too early, at column 17: the string that opens at column 12 is not closed"),
        ('{"prompt" "a"}', "Expecting ':' delimiter (column 11)"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_broken_line_names_the_column_of_that_line(tmp_path: Path, line: str, problem: str, ending: str) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n' + (line + ending).encode())
    assert f"w.jsonl:2: not JSON: {problem}" in refusal(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"prompt": "a"}\n[1]', "w.jsonl:2: a list, not an object"),
        ('"text"', "a string, not an object"),
        ("NaN", "a number, not an object"),
        ("{}", "an empty object"),
        ({"text": "a"}, "neither 'prompt' nor 'messages' (found 'text')"),
        ({"prompt": None}, "'prompt' is null"),
        ({"prompt": True}, "'prompt' is true"),
        ({"prompt": " \n"}, "'prompt' is empty"),
        ({"prompt": ["a"]}, "'prompt' is a list"),
        ('{"prompt": "\\ud800"}', "half a surrogate pair"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "both 'prompt' and 'messages'"),
        ({"messages": "hello"}, "'messages' is a string, not a list"),
        ({"messages": []}, "'messages' is empty"),
        ({"messages": ["hello"]}, "'messages[0]' is a string"),
        ({"messages": [{"content": "a"}]}, "'messages[0]' has no 'role'"),
        ({"messages": [{"role": "user"}]}, "'messages[0].content' is null"),
        ({"messages": [{"role": "user", "content": ""}]}, "'messages[0].content' is empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a part that is not text"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "nothing to answer"),
        ({"prompt": "a", "category": 3}, "'category' is a number"),
        ({"prompt": "a", "max_tokens": 0}, "'max_tokens' is 0"),
        ({"prompt": "a", "max_tokens": True}, "'max_tokens' is true"),
        ({"prompt": "a", "output_tokens": "5"}, "'output_tokens' is a string"),
        ({"prompt": "a", "max_tokens": 5, "output_tokens": 6}, "differ"),
        ('{"prompt": ' + "[" * 100_000, "not usable JSON"),
    ],
)
def test_unusable_lines_are_refused(write: Any, line: Any, problem: str) -> None:
    assert problem in refusal(write(line))


def test_unused_keys_are_one_note(write: Any) -> None:
    workload = read(write({"prompt": "a", "id": 1}, {"prompt": "b", "id": 2, "source": "x"}, {"prompt": "c"}))
    assert workload.notes == ("2 records with keys that are not used: 'id' (2), 'source' (1)",)


def test_a_chat_keeps_its_messages(write: Any) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "Why?"},
    ]
    prompt = read(write({"messages": messages, "category": "chat"})).prompts[0]
    assert prompt == Prompt(index=0, messages=tuple(messages), category="chat")
    assert prompt.text == "Be brief.\nWhy?"


def test_the_trailing_answer_is_cut_and_noted(write: Any) -> None:
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]
    workload = read(write({"messages": turns}))
    assert workload.prompts[0].messages == tuple(turns[:3])
    assert workload.notes == ("1 record ended with the assistant's answer, which was cut: it is what is asked for",)


def test_repeated_prompts_are_noted(write: Any) -> None:
    workload = read(write({"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}))
    assert workload.notes == ("1 of 3 prompts repeat another one; the interval counts them as different content",)


def test_line_separators_inside_a_string_do_not_end_the_line(write: Any) -> None:
    assert read(write('{"prompt": "a\u2028b\x85c"}')).prompts[0].prompt == "a\u2028b\x85c"


@pytest.mark.parametrize("content", ["", "\n \r\n"], ids=["empty", "blank"])
def test_a_file_without_prompts_is_refused(write: Any, content: str) -> None:
    assert "no prompt in the file" in refusal(write(content))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path / 'none.jsonl'}: no such file" in refusal(tmp_path / "none.jsonl")


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    assert "a folder without JSON lines or Parquet files" in refusal(tmp_path)


def test_an_unreadable_file_is_refused(monkeypatch: pytest.MonkeyPatch, write: Any) -> None:
    path = write({"prompt": "a"})

    def refuse(_: Path, __: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # chmod would not stop a test that runs as root
    assert f"{path}: cannot be read: Permission denied" in refusal(path)


def test_other_encodings_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": "\xe9"}\n')
    assert f"{path}:2: not UTF-8: byte 0xe9 at offset 28" in refusal(path)


def test_a_workload_is_summed_up(write: Any) -> None:
    workload = read(
        write(
            {"prompt": "12345", "category": "code", "max_tokens": 9},
            {"prompt": "1", "category": "code", "max_tokens": 3},
            {"messages": [{"role": "user", "content": "123"}]},
        )
    )
    tally = Tally()
    for prompt in workload.prompts:
        tally.add(prompt)
    assert tally.summary() == WorkloadSummary(
        prompts=3,
        chats=1,
        categories=(("code", 2), (None, 1)),
        characters=((0.0, 1), (0.5, 3), (0.9, 5), (1.0, 5)),
        max_tokens=(3, 9),
        own_max_tokens=2,
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["prompt", "messages", "role", "content", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(JSON.map(json.dumps) | st.text(st.characters(codec="utf-8", exclude_characters="\n"))))
def test_every_line_is_a_row_a_bad_line_or_blank(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "w.jsonl"
    path.write_text("{}\n" + "\n".join(lines), newline="")
    (reader,) = readers_of(path, WorkloadOptions())
    assert len(list(reader.rows())) == 1 + sum(bool(line.strip()) for line in lines)


@settings(deadline=None)
@given(JSON)
def test_every_record_is_a_conversation_or_refused_with_a_reason(record: Any) -> None:
    try:
        found = RecordReader({}).conversation(record)
    except BadRecordError:
        return
    assert found.prompt or found.messages


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(fit_to_send), min_size=1, unique=True))
def test_prompts_come_back_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, prompts: list[str]) -> None:
    path = tmp_path_factory.mktemp("prompts") / "w.jsonl"
    text = "\r\n".join(json.dumps({"prompt": prompt}, ensure_ascii=False) for prompt in prompts)
    path.write_bytes(text.encode())
    assert [prompt.prompt for prompt in read(path).prompts] == prompts
