"""A folder of configs in place of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.config import load_configs, read_configs
from pytest_specdec.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    return tmp_path / "configs"


def test_every_config_of_the_folder_is_taken_sorted_by_name(folder: Path) -> None:
    (folder / "b.json").write_text(NGRAM)
    (folder / "a.yaml").write_text(NGRAM)
    (folder / "c.yml").write_text(NGRAM)
    (folder / "README.md").write_text("not a config, and does not look like one")
    configs, _ = load_configs([folder], default_model="target")
    assert [config.id for config in configs] == ["a", "b", "c"]


def test_subfolders_and_hidden_files_are_not_looked_at(folder: Path) -> None:
    (folder / "a.json").write_text(NGRAM)
    (folder / ".a.json").write_text("an editor's backup")
    (folder / "more.json").mkdir()
    (folder / "more.json" / "b.json").write_text(NGRAM)
    configs, _ = load_configs([folder], default_model="target")
    assert [config.id for config in configs] == ["a"]


def test_a_file_that_is_no_config_is_an_error_with_its_name(folder: Path) -> None:
    (folder / "a.json").write_text(NGRAM)
    (folder / "package.json").write_text('{"name": "website", "version": "1.0.0"}')
    (folder / "z.json").write_text("{")
    configs, findings = read_configs([folder], default_model="target")
    assert [config.id for config in configs] == ["a"]
    places = [finding.where for finding in findings if finding.severity == "error"]
    assert any(where.startswith("configs/package.json") for where in places)
    assert any(where.startswith("configs/z.json") for where in places)


def test_a_folder_without_a_config_is_an_error(folder: Path) -> None:
    (folder / "README.md").write_text("empty")
    with pytest.raises(ConfigError, match=r"configs: there is no config in this folder \(\.json, \.yaml, \.yml\)"):
        load_configs([folder], default_model="target")


def test_a_draft_s_folder_is_told_from_a_folder_of_configs(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}')
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="configs: this is a model's folder, not one of configs"):
        load_configs([folder], default_model="target")


def test_a_file_given_beside_its_folder_is_given_twice(folder: Path) -> None:
    (folder / "a.json").write_text(NGRAM)
    with pytest.raises(ConfigError, match=r"configs/a\.json: this file is given twice"):
        load_configs([folder, folder / "a.json"], default_model="target")
