"""``pytest-specdec workload``: what a file holds, or every bad line of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.cli import main

if TYPE_CHECKING:
    from pathlib import Path

LINES = (
    {"prompt": "x" * 10, "category": "code", "max_tokens": 16},
    {"prompt": "y" * 20, "category": "code", "max_tokens": 256},
    {"prompt": "z" * 400},
)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "code.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return path


def test_counts_and_lengths_for_people(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(workload)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        str(workload),
        "format       JSON lines, prompt or messages",
        "prompts      3   (0 chats, 3 plain)",
        "categories   2   code",
        "             1   without a category",
        "characters   shortest 10, median 20, 90% up to 400, longest 400",
        "max_tokens   16 .. 256   (stated by 2 prompts)",
    ]
    assert lines[-1].startswith("sha256       ")


def test_counts_and_lengths_as_json(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(workload), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["prompts"] == 3
    assert data["categories"] == [{"category": "code", "prompts": 2}, {"category": None, "prompts": 1}]
    assert data["characters"][0] == {"quantile": 0.0, "length": 10}
    assert data["max_tokens"] == [16, 256]


def test_bad_line_is_named_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"prompt": "fine"}\n{"prompt": \n', encoding="utf-8")
    assert main(["workload", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{path}:2: " in printed.err


def test_missing_file_is_named_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(tmp_path / "nothing.jsonl")]) == 2
    assert "nothing.jsonl" in capsys.readouterr().err


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs.csv"
    path.write_text("request,kind\nWrite a Python function.,a\nWho wrote the play Faust?,b\nReturn it as JSON.,b\n")
    return path


def test_columns_of_a_log_are_named_on_the_command_line(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(logs), "--column", "prompt=request", "--column", "category=kind"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "format       CSV, prompt or messages",
        "prompts      3   (0 chats, 3 plain)",
        "categories   2   b",
        "             1   a",
    ]


@pytest.mark.parametrize("column", ["prompt", "prompt=", "promt=request"])
def test_a_column_that_is_none_is_refused(logs: Path, column: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["workload", str(logs), "--column", column])
    assert "is not NAME=COLUMN" in capsys.readouterr().err


def test_classes_are_previewed_with_examples(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(logs), "--column", "prompt=request", "--classify"]) == 0
    text = capsys.readouterr().out
    assert "code   1 of 3 by the rules, such as\n    Write a Python function." in text
    assert "structured   1 of 3 by the rules, such as\n    Return it as JSON." in text
    assert "chat   1 of 3 by the rules, such as\n    Who wrote the play Faust?" in text


def test_classes_are_in_the_data_too(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(logs), "--column", "prompt=request", "--classify", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == "CSV, prompt or messages"
    assert data["classes"]["chat"] == {"prompts": 1, "examples": ["Who wrote the play Faust?"]}


def test_bad_lines_are_counted_where_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text('{"prompt": "fine"}\nnonsense\n')
    assert main(["workload", str(path), "--skip-bad-lines"]) == 0
    assert f"note: 1 bad line skipped: {path}:2: not JSON" in capsys.readouterr().out


def test_turns_of_conversations_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"from": who, "value": f"{who} {n}"} for n in range(3) for who in ("human", "gpt")]
    path = tmp_path / "w.json"
    path.write_text(json.dumps([{"conversations": turns}]))
    assert main(["workload", str(path), "--multi-turn", "recorded", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prompts"] == 3


def test_a_split_of_a_file_is_refused(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(logs), "--split", "train"]) == 2
    assert "belong to a dataset on the hub" in capsys.readouterr().err


def test_a_file_of_another_form_names_the_option_that_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edits.jsonl"
    path.write_text('{"label": "x", "text": "Tell me."}\n' * 8, encoding="utf-8")
    assert main(["workload", str(path)]) != 0
    message = capsys.readouterr().err
    assert "--column prompt=text" in message
    assert message.count("neither 'prompt' nor 'messages'") == 1
    assert main(["workload", str(path), "--column", "prompt=text"]) == 0


def test_a_bundled_workload_is_known_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "chat"]) == 0
    assert "prompts      80" in capsys.readouterr().out


def test_a_file_comes_before_a_bundled_workload_of_its_name(
    workload: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workload.parent)
    workload.rename("chat")
    assert main(["workload", "chat"]) == 0
    assert "prompts      3 " in capsys.readouterr().out


def test_errors_name_the_options_of_the_command(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload.write_text('{"prompt": "a"}\n{broken\n', encoding="utf-8")
    assert main(["workload", str(workload)]) == 2
    message = capsys.readouterr().err
    assert "--skip-bad-lines leaves them out" in message
    assert "on_bad_line" not in message


def test_a_mapping_of_columns_is_shown_as_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("request,kind\nhello,chat\n", encoding="utf-8")
    assert main(["workload", str(tmp_path / "log.csv")]) == 2
    assert "--column prompt=request --column category=kind" in capsys.readouterr().err
