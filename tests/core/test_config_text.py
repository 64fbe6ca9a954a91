from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdec.core.config_text import parse_config_text, read_config_text
from pytest_specdec.core.errors import ConfigError, Finding


def refusal(path: Path | str) -> Finding:
    with pytest.raises(ConfigError) as raised:
        read_config_text(path)
    (finding,) = raised.value.findings
    assert finding.severity == "error"
    return finding


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_named_as_one_would_type_it(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "configs" / "a.json").write_text('{"x": 1}')
    assert read_config_text(folder / "configs" / "a.json").name == "configs/a.json"


def test_a_byte_order_mark_is_accepted_and_does_not_count(folder: Path) -> None:
    (folder / "a.json").write_bytes(b'\xef\xbb\xbf{"x": 1}')
    text = read_config_text("a.json")
    assert text.data == {"x": 1}
    assert text.where(("x",)) == "a.json:1:2: x"


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.YAML"])
def test_yaml_goes_by_its_suffixes(folder: Path, name: str) -> None:
    (folder / name).write_text("x: [1]")
    assert read_config_text(name).data == {"x": [1]}


def test_json_is_not_read_as_yaml(folder: Path) -> None:
    (folder / "a.json").write_text("x: 1")
    assert "`x`" in refusal("a.json").what


@pytest.mark.parametrize("name", ["a.toml", "a", "a.json5", ".json"])
def test_another_suffix_is_refused_with_those_that_are_accepted(folder: Path, name: str) -> None:
    (folder / name).write_text("{}")
    finding = refusal(name)
    assert ".json, .yaml, .yml" in finding.remedy
    assert (f"the suffix {Path(name).suffix}" if Path(name).suffix else "a name without suffix") in finding.what


def test_a_missing_file_suggests_its_neighbour(folder: Path) -> None:
    (folder / "eagle3.json").write_text("{}")
    finding = refusal("eagle-3.json")
    assert finding.what == "there is no such file"
    assert finding.remedy == "Did you mean 'eagle3.json'?"


def test_a_missing_folder_is_named(folder: Path) -> None:
    assert str(folder / "none") in refusal(folder / "none" / "a.json").remedy


def test_a_folder_is_refused_with_a_file_in_it(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "configs" / "a.json").write_text("{}")
    finding = refusal("configs")
    assert finding.what == "this is a folder"
    assert "a.json" in finding.remedy


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(folder: Path, content: bytes) -> None:
    (folder / "a.yaml").write_bytes(content)
    assert refusal("a.yaml").what == "the file is empty"


def test_text_that_is_not_utf_8_is_placed(folder: Path) -> None:
    (folder / "a.json").write_bytes(b'{\n "x": "\xfc"}')
    finding = refusal("a.json")
    assert finding.where == "a.json:2:8"
    assert "not UTF-8 text (byte 0xfc)" in finding.what


def test_an_unreadable_file_is_refused_with_the_systems_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.json").write_text("{}")

    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    assert refusal("a.json").what == "the file cannot be read (Permission denied)"


@pytest.mark.parametrize("text", ['{"method": "ngram"}', " [1]"])
def test_json_in_place_of_a_file_name_is_recognised(text: str) -> None:
    finding = refusal(text)
    assert "a file's name is needed" in finding.what
    assert ".json" in finding.remedy


@pytest.mark.parametrize("name", ["x" * 5000 + ".json", "a\0.json"])
def test_a_name_that_no_file_can_have_is_a_finding(name: str) -> None:
    assert "cannot be read" in refusal(name).what or "no such file" in refusal(name).what


def test_every_problem_of_a_text_becomes_a_finding_with_file_line_and_column(folder: Path) -> None:
    (folder / "a.json").write_text('{"x": True,\n "x": 1,}')
    with pytest.raises(ConfigError) as raised:
        read_config_text("a.json")
    assert [finding.where for finding in raised.value.findings] == ["a.json:1:7", "a.json:2:2", "a.json:2:8"]


def test_a_key_that_is_not_there_has_the_place_of_what_is_around_it(folder: Path) -> None:
    (folder / "a.yaml").write_text("load:\n  low: {concurrency: 1}\n")
    text = read_config_text("a.yaml")
    assert text.where(("load", "low", "rounds")) == "a.yaml:2:3: load.low.rounds"
    assert text.where(("serve", 2)) == "a.yaml: serve[2]"
    assert text.where() == "a.yaml"


def test_text_can_be_parsed_without_a_file() -> None:
    assert parse_config_text("{'a': 1}", ".yaml").data == {"a": 1}
    assert parse_config_text("{'a': 1}", ".json").problems
