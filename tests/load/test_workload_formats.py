"""Each format is told by its content, read as it is, and refused with file and line where it is broken."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.load.reading import read, refusal

if TYPE_CHECKING:
    from pathlib import Path

USER = {"role": "user", "content": "Why?"}
MORE = {"role": "user", "content": "And then?"}
SHAREGPT = [
    {"from": "human", "value": "Why?"},
    {"from": "gpt", "value": "Because."},
    {"from": "human", "value": "And?"},
]
MASK = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(content: Any, name: str = "w.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def batch(body: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": body, **keys}


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        ([{"prompt": "a"}], "w.jsonl", "JSON lines, prompt or messages"),
        ([{"prompt": "a", "output_tokens": 4}], "w.txt", "JSON lines, prompt or messages"),
        ([{"prompt": "a"}], "w.csv", "JSON lines, prompt or messages"),
        ([{"conversations": SHAREGPT}], "w.jsonl", "JSON lines, ShareGPT conversations"),
        (json.dumps([{"conversations": SHAREGPT}]), "w.json", "JSON array, ShareGPT conversations"),
        (json.dumps([{"prompt": "a"}]), "w.jsonl", "JSON array, prompt or messages"),
        ([batch({"messages": [USER]})], "w.jsonl", "JSON lines, OpenAI Batch API"),
        ([{"question_id": 1, "turns": ["a"]}], "w.jsonl", "JSON lines, Spec-Bench or MT-Bench turns"),
        ("prompt,category\na,b\n", "w.csv", "CSV, prompt or messages"),
        ("prompt\na\n", "w.txt", "CSV, prompt or messages"),
    ],
)
def test_the_format_is_told_by_the_content(write: Any, content: Any, name: str, expected: str) -> None:
    assert read(write(content, name)).format == expected


def test_the_suffix_decides_where_the_content_leaves_it_open(write: Any) -> None:
    text = "prompt,category\na,b\n"
    assert "w.jsonl:1: not JSON" in refusal(write(text, "w.jsonl"))
    assert len(read(write(text, "w.log")).prompts) == 1


def test_a_text_of_one_prompt_a_line_is_no_csv(write: Any) -> None:
    assert "no column is called 'prompt' or 'messages'" in refusal(write("Tell me a story.\nWho are you?\n", "w.txt"))


def test_one_file_has_one_form(write: Any) -> None:
    message = refusal(write([{"prompt": "a"}, {"turns": ["b"]}, {"messages": [USER]}]))
    assert "w.jsonl:2: 'turns' (Spec-Bench or MT-Bench turns) in a file of prompt or messages" in message
    assert "1 bad line in" in message


def test_a_record_of_two_forms_is_ambiguous_until_a_column_says_which(write: Any) -> None:
    path = write([{"prompt": "a", "turns": ["b"]}])
    assert "w.jsonl:1: both 'prompt' and 'turns': which one is to be sent?" in refusal(path)
    assert read(path, columns={"turns": "turns"}).prompts[0].text == "b"


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08", b"PK\x03\x04", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"])
def test_packed_files_are_named(write: Any, magic: bytes) -> None:
    assert "packed with" in refusal(write(magic + b"\x00" * 20))


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)  # so that opening it to read does not wait for a writer
    try:
        assert "not a file but a pipe" in refusal(tmp_path / "pipe")
    finally:
        os.close(end)


def test_an_object_over_several_lines_is_explained(write: Any) -> None:
    assert "one object must stand on one line" in refusal(write('{\n  "prompt": "a"\n}'))


def test_columns_rename_and_reach_into_objects(write: Any) -> None:
    record = {"request": "a", "prompt": "ignored", "metadata": {"kind": "code"}, "n": 5}
    workload = read(write([record]), columns={"prompt": "request", "category": "metadata.kind", "max_tokens": "n"})
    assert [(p.prompt, p.category, p.max_tokens) for p in workload.prompts] == [("a", "code", 5)]
    assert workload.notes == ("1 record with keys that are not used: 'prompt' (1)",)


def test_a_column_that_is_missing_in_a_line_is_bad(write: Any) -> None:
    message = refusal(write([{"request": "a"}, {"other": "b"}]), columns={"prompt": "request"})
    assert "w.jsonl:2: 'prompt' is null: there is no 'request' (found 'other')" in message


class TestShareGpt:
    def test_the_first_turn_is_sent_and_the_rest_counted(self, write: Any) -> None:
        workload = read(write(json.dumps([{"id": "x", "conversations": SHAREGPT}] * 2), "w.json"))
        assert [prompt.messages for prompt in workload.prompts] == [(USER,), (USER,)]
        assert (
            "2 conversations with 2 later turns that are not sent; `multi_turn: recorded` sends them" in workload.notes
        )

    def test_roles_are_translated(self, write: Any) -> None:
        turns = [{"from": "system", "value": "Be brief."}, {"from": "user", "value": "Why?"}]
        assert read(write([{"conversations": turns}])).prompts[0].messages == (
            {"role": "system", "content": "Be brief."},
            USER,
        )

    def test_what_the_assistant_says_first_is_cut_and_counted(self, write: Any) -> None:
        workload = read(write([{"conversations": [SHAREGPT[1], SHAREGPT[0]]}]))
        assert workload.prompts[0].messages == (USER,)
        assert workload.notes == ("1 conversation began with the assistant, and that was cut",)

    @pytest.mark.parametrize(
        ("turns", "problem"),
        [
            ([], "'conversations' is empty"),
            ("x", "'conversations' is a string, not a list"),
            (["x"], "'conversations[0]' is a string"),
            ([{"value": "x"}], "'conversations[0].from' is null"),
            ([{"from": "tool", "value": "x"}], "'conversations[0].from' is 'tool'; known are human"),
            ([{"from": "human", "value": ""}], "'conversations[0].value' is empty"),
            ([{"from": "human"}], "'conversations[0].value' is null"),
            ([{"from": "gpt", "value": "x"}], "nothing to answer"),
            ([{"from": "human", "value": "\ud800"}], "half a surrogate pair"),
        ],
    )
    def test_unusable_conversations_are_named(self, write: Any, turns: Any, problem: str) -> None:
        message = refusal(write([{"conversations": SHAREGPT}, {"conversations": turns}]))
        assert "w.jsonl:2: " in message
        assert problem in message


class TestBatch:
    def test_body_holds_what_is_sent(self, write: Any) -> None:
        line = batch({"model": "m", "messages": [USER], "max_completion_tokens": 7}, category="chat")
        workload = read(write([line]))
        assert [(p.messages, p.category, p.max_tokens) for p in workload.prompts] == [((USER,), "chat", 7)]
        assert workload.notes == ("1 record with keys that are not used: 'body.model' (1)",)

    def test_a_category_may_lie_in_the_body(self, write: Any) -> None:
        line = batch({"messages": [USER], "metadata": {"kind": "code"}})
        workload = read(write([line]), columns={"category": "body.metadata.kind"})
        assert [(p.messages, p.category) for p in workload.prompts] == [((USER,), "code")]

    def test_plain_completions_are_sent_as_such(self, write: Any) -> None:
        assert read(write([batch({"prompt": "a"}, url="/v1/completions")])).prompts[0].prompt == "a"

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (batch({"input": "a"}, url="/v1/embeddings"), "'url' is '/v1/embeddings': only chat"),
            (batch({"input": "a"}), "'body' has neither 'messages' nor 'prompt'"),
            (batch({"messages": [USER], "prompt": "a"}), "'body' has both"),
            ({"body": "text"}, "'body' is a string"),
            (batch({"messages": []}), "'body.messages' is empty"),
            (batch({"messages": [USER], "max_tokens": 0}), "'max_tokens' is 0"),
            (batch({"messages": [USER], "max_tokens": 1, "max_completion_tokens": 2}), "differ"),
            (batch({"messages": [USER], "max_tokens": 1}, max_tokens=2), "'max_tokens' and that of 'body' differ"),
        ],
    )
    def test_unusable_lines_are_named(self, write: Any, line: Any, problem: str) -> None:
        message = refusal(write([batch({"messages": [USER]}), line]))
        assert "w.jsonl:2: " in message
        assert problem in message


class TestTurns:
    def test_the_first_turn_is_sent_and_the_rest_cannot_be(self, write: Any) -> None:
        workload = read(write([{"question_id": 81, "category": "writing", "turns": ["Why?", "And then?"]}]))
        assert [(p.messages, p.category) for p in workload.prompts] == [((USER,), "writing")]
        assert workload.notes == (
            "1 record with 1 later turn that cannot be sent: no answers are recorded that they could follow",
        )

    @pytest.mark.parametrize(
        ("turns", "problem"),
        [
            ([], "'turns' is empty"),
            ("a", "'turns' is a string, not a list"),
            ([1], "'turns[0]' is a number"),
            (["a", ""], "'turns[1]' is empty"),
            ([MASK], "'turns[0]' is a placeholder that was not filled: 'FULL BENCHMARK DATA"),
            (["{{ source }}"], "'turns[0]' is a placeholder that was not filled: '{{ source }}'"),
            (["[PLACEHOLDER]"], "'turns[0]' is a placeholder that was not filled: '[PLACEHOLDER]'"),
        ],
    )
    def test_unusable_lines_are_named(self, write: Any, turns: Any, problem: str) -> None:
        assert f"w.jsonl:1: {problem}" in refusal(write([{"turns": turns}]))


class TestFolders:
    def test_all_files_are_read_and_listed(self, write: Any) -> None:
        write([{"turns": ["b"], "category": "qa"}], "speed/b.jsonl")
        path = write([{"turns": ["a"]}, {"turns": ["a2"]}], "speed/a.jsonl").parent
        write("not data", "speed/README.md")
        workload = read(path)
        assert [prompt.text for prompt in workload.prompts] == ["a", "a2", "b"]
        assert [prompt.index for prompt in workload.prompts] == [0, 1, 2]
        assert workload.notes == ("2 files of the folder: a.jsonl (2), b.jsonl (1); not read: README.md",)

    @pytest.mark.parametrize(
        "record",
        [
            {"turns": ["Summarise: {{document}}"]},
            {"messages": [{"role": "user", "content": "Summarise: {{document}}"}]},
            {
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Summarise: {{document}}"}]}],
                "parts": 1,
            },
            {"prompt": "Summarise: {{document}}"},
            {"conversations": [{"from": "human", "value": "Summarise: {{document}}"}]},
        ],
        ids="-".join,
    )
    def test_gaps_that_were_not_filled_are_refused_by_name(self, write: Any, record: Any) -> None:
        path = write([record], "speed/a.jsonl").parent
        message = refusal(path)
        assert f"{path / 'a.jsonl'}:1: " in message
        assert "holds a placeholder that was not filled: '{{document}}'" in message

    def test_braces_in_other_files_are_ordinary_text(self, write: Any) -> None:
        assert read(write([{"prompt": "Explain {{ user.name }} in Jinja"}])).prompts

    def test_what_the_own_script_of_speed_bench_writes_has_no_answers(self, write: Any) -> None:
        record = {"question_id": "x", "category": "roleplay", "messages": [USER, MORE]}
        workload = read(write([record]))
        assert workload.prompts[0].messages == (USER,)
        assert workload.notes == (
            "1 record with 1 later turn that cannot be sent: no answers are recorded that they could follow",
        )

    def test_two_messages_of_a_user_are_one_request_elsewhere(self, write: Any) -> None:
        assert read(write([{"messages": [USER, MORE]}])).prompts[0].messages == (USER, MORE)

    def test_a_template_that_was_not_filled_is_refused_in_any_file(self, write: Any) -> None:
        path = write([{"turns": [f"{MASK}\n\nSummarise: {{article}}"]}])
        assert "w.jsonl:1: 'turns[0]' is a placeholder that was not filled" in refusal(path)

    @pytest.mark.parametrize("text", [r"Simplify \frac{{a}}{{b}}", "What does {{ user.name }} print?", "f'{{}}'"])
    def test_braces_of_formulae_and_code_are_no_gaps(self, write: Any, text: str) -> None:
        assert read(write([{"turns": [text]}], "speed/a.jsonl").parent).prompts

    def test_the_checksum_is_of_all_files(self, write: Any) -> None:
        folder = write([{"turns": ["a"]}], "speed/a.jsonl").parent
        write([{"turns": ["b"]}], "speed/b.jsonl")
        before = read(folder).sha256
        write([{"turns": ["c"]}], "speed/b.jsonl")
        assert read(folder).sha256 != before

    def test_folders_below_are_proposed(self, write: Any) -> None:
        below = write([{"turns": ["a"]}], "speed/qualitative/a.jsonl").parent
        assert f"Name one of its folders: {below}" in refusal(below.parent)


class TestBadLines:
    def test_skipping_is_asked_for_and_counted(self, write: Any) -> None:
        path = write([{"prompt": 1}, {"prompt": "a"}, "nonsense"])
        workload = read(path, on_bad_line="skip")
        assert [prompt.text for prompt in workload.prompts] == ["a"]
        (note,) = workload.notes
        assert note.startswith(f"2 bad lines skipped: {path}:1: 'prompt' is a number, not a string; {path}:3: not JSON")

    def test_a_file_of_bad_lines_is_no_workload_even_so(self, write: Any) -> None:
        message = refusal(write(["nonsense"]), on_bad_line="skip")
        assert "no prompt in the file; 1 bad line skipped" in message
        assert "w.jsonl:1: not JSON" in message

    def test_skipped_lines_are_listed_up_to_a_bound(self, write: Any) -> None:
        (note, *_) = read(write([*[{"prompt": 1}, {"prompt": None}] * 13, {"prompt": "a"}]), on_bad_line="skip").notes
        assert note.startswith("26 bad lines skipped")
        assert note.endswith("and 6 more")


def test_max_tokens_of_the_entry_hold_where_a_line_has_none(write: Any) -> None:
    workload = read(write([{"prompt": "a"}, {"prompt": "b", "max_tokens": 3}]), max_tokens=9)
    assert [prompt.max_tokens for prompt in workload.prompts] == [9, 3]


def test_the_checksum_tells_apart_what_was_chosen(write: Any) -> None:
    path = write([{"prompt": text} for text in "abcdefgh"])
    sums = {
        read(path, **options).sha256 for options in ({}, {"sample": 4}, {"sample": 4, "seed": 1}, {"max_tokens": 4})
    }
    assert len(sums) == 4
    assert read(path, sample=4).sha256 == read(path, sample=4).sha256
