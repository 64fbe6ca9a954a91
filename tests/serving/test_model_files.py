"""Weights that are missing or damaged, and missing chat templates, are told before a launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.core.config import load_configs
from pytest_specdec.core.model_paths import near_path
from pytest_specdec.serving.model_files import damaged_weights, lacks_chat_template, missing_weights
from pytest_specdec.serving.preflight import folder_findings

DRAFT = Path(__file__).parents[2] / "example_suites" / "drafts" / "smollm2-135m-eagle3"


def safetensors(data: bytes = b"12345678", *, end: int = 8) -> bytes:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, end]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


def model(folder: Path, weights: bytes | None = None, **tokenizer: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    if weights is not None:
        (folder / "model.safetensors").write_bytes(weights)
    return folder


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        (safetensors()[:-1], "is cut short: 96 bytes of 97"),
        (safetensors()[:30], "is cut short: 30 bytes, and its header alone has"),
        (safetensors() + b"x", "is damaged"),
        (safetensors().replace(b"data_offsets", b"data_offs\xff\xff\xff"), "is damaged: its header"),
        (b"\xff" * 100, "is damaged, or no file of safetensors"),
        (b"", "holds 0 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "is a pointer of Git LFS"),
    ],
)
def test_a_damaged_file_of_weights_is_told(tmp_path: Path, weights: bytes, fault: str) -> None:
    ((name, found, remedy),) = damaged_weights(model(tmp_path / "m", weights))
    assert name == "model.safetensors"
    assert found.startswith(fault)
    assert remedy


def test_whole_weights_are_fine(tmp_path: Path) -> None:
    assert damaged_weights(model(tmp_path / "m", safetensors())) == []
    assert damaged_weights(DRAFT) == []


def test_a_folder_without_weights_is_told(tmp_path: Path) -> None:
    assert missing_weights(model(tmp_path / "m"))
    assert not missing_weights(model(tmp_path / "m", b""))


@pytest.mark.parametrize(
    ("tokenizer", "extra", "lacks"),
    [
        ({"tokenizer_class": "GPT2Tokenizer"}, None, True),
        ({"chat_template": "{{ messages }}"}, None, False),
        ({}, "chat_template.jinja", False),
    ],
)
def test_a_chat_template_is_looked_for_where_vllm_does(
    tmp_path: Path, tokenizer: dict[str, Any], extra: str | None, *, lacks: bool
) -> None:
    folder = model(tmp_path / "m", **tokenizer)
    if extra:
        (folder / extra).touch()
    assert lacks_chat_template(folder) is lacks


def test_a_folder_that_says_nothing_about_a_tokenizer_is_not_judged(tmp_path: Path) -> None:
    assert not lacks_chat_template(tmp_path)


def findings(folder: Path, **envelope: Any) -> list[str]:
    speculative = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    (folder / "c.json").write_text(json.dumps({"model": "./target", "speculative_config": speculative, **envelope}))
    (config,), _ = load_configs([folder / "c.json"], default_model=None)
    return [f"{finding.severity}: {finding}" for finding in folder_findings(config)]


def test_damaged_and_missing_weights_are_errors_of_the_config(tmp_path: Path) -> None:
    model(tmp_path / "target")
    (missing,) = findings(tmp_path)
    assert missing.startswith("error: ")
    assert "c.json:1:2: model: there is no file of weights in" in missing
    model(tmp_path / "target", safetensors()[:-1])
    (damaged,) = findings(tmp_path)
    assert "model.safetensors is cut short" in damaged
    assert findings(tmp_path, serve={"load_format": "dummy"}) == []


def test_a_hub_like_id_near_a_folder_is_a_slip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "models" / "smollm2-135m-instruct").mkdir(parents=True)
    (found,) = findings(tmp_path, model="models/smollm2-135m-instrcut")
    assert "Did you mean models/smollm2-135m-instruct?" in found
    assert findings(tmp_path, model="HuggingFaceTB/SmolLM2-135M-Instruct") == []


@pytest.mark.parametrize(
    ("path", "meant"),
    [("./darft", "./draft"), ("sub/../daft", "sub/../draft"), ("draft", None), ("./other", None), ("no/draft", None)],
)
def test_the_neighbour_that_was_meant(tmp_path: Path, path: str, meant: str | None) -> None:
    (tmp_path / "draft").mkdir()
    (tmp_path / "sub").mkdir()
    assert near_path(path, tmp_path) == meant
