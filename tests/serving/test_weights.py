"""Sizes of weights from files, without reading them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.serving.weights import weights_gib

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3
SHAPE = {"hidden_size": 1024, "num_hidden_layers": 1, "num_attention_heads": 8, "vocab_size": 1024}


def put(folder: Path, **sizes_gib: float) -> Path:
    """Sparse files: they have their size, and take no room."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in sizes_gib.items():
        with (folder / name.replace("_", ".")).open("wb") as file:
            file.truncate(int(size * GIB))
    return folder


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({"model-1_safetensors": 2.0, "model-2_safetensors": 1.5}, 3.5),
        ({"model_safetensors": 2.0, "pytorch-model_bin": 4.0}, 2.0),
        ({"model_safetensors": 2.0, "consolidated_safetensors": 2.0}, 2.0),
        ({"consolidated_safetensors": 2.0}, 2.0),
        ({"pytorch-model_bin": 4.0, "tokenizer_json": 1.0}, 4.0),
        ({"model_gguf": 0.5}, 0.5),
    ],
)
def test_a_local_folder(files: dict[str, float], size: float, tmp_path: Path) -> None:
    put(tmp_path / "model", **files)
    assert weights_gib("model", tmp_path) == pytest.approx(size)
    assert weights_gib("../model", tmp_path / "model") == pytest.approx(size)


def test_a_single_file(tmp_path: Path) -> None:
    put(tmp_path, model_gguf=0.5)
    assert weights_gib("./model.gguf", tmp_path) == pytest.approx(0.5)


def test_dummy_weights_are_as_large_as_the_config_says(tmp_path: Path) -> None:
    put(tmp_path, model_safetensors=9.0)
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    estimated = weights_gib(".", tmp_path, dummy=True)
    assert estimated == pytest.approx(2 * (1024 * 1024 * (4 + 12) + 2 * 1024 * 1024) / GIB)
    assert weights_gib(".", tmp_path) == pytest.approx(9.0)


def test_a_folder_without_weights_is_estimated(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    assert weights_gib(".", tmp_path) is not None


@pytest.mark.parametrize("content", ["", "[]", "{", "{}"])
def test_a_folder_that_does_not_tell(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    assert weights_gib(".", tmp_path) is None


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_a_hub_id_in_the_cache(variable: str, tmp_path: Path) -> None:
    below = {"HF_HUB_CACHE": "", "HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub"}[variable]
    snapshots = tmp_path / below / "models--org--name" / "snapshots"
    put(snapshots / "old", model_safetensors=1.0)
    put(snapshots / "new", model_safetensors=2.0)
    os.utime(snapshots / "old", (1, 1))
    assert weights_gib("org/name", tmp_path / "elsewhere", env={variable: str(tmp_path)}) == pytest.approx(2.0)


@pytest.mark.parametrize("model", ["org/name", "name", "./not-there"])
def test_a_model_that_is_not_here(model: str, tmp_path: Path) -> None:
    assert weights_gib(model, tmp_path, env={"HF_HOME": str(tmp_path)}) is None
