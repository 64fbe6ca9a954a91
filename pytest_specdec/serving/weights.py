"""How large a model's weights are, from the files that vLLM will read: a local folder, or the Hugging Face cache. Nothing is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.model_paths import is_path, located
from pytest_specdec.core.model_size import estimated_weights_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

_GIB = 1024**3
KINDS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
"""The first kind that a folder has is the one that is loaded."""


def weights_gib(model: str, folder: Path, *, dummy: bool = False, env: Mapping[str, str] | None = None) -> float | None:
    """Size of a model's weights in GiB; None for a hub id that is not in the cache, or a folder that does not tell.

    Args:
        model: As in the config: a local path or a hub id.
        folder: Where relative paths count from.
        dummy: Weights are made up (``--load-format dummy``): what ``config.json`` describes is what is loaded.
        env: Variables that say where the cache is; default: the process's own.
    """
    place = found_locally(model, folder, os.environ if env is None else env)
    if place is None:
        return None
    if place.is_file():
        return place.stat().st_size / _GIB
    size = None if dummy else _files_bytes(place)
    if size is None:
        size = estimated_weights_bytes(_json(place / "config.json"))
    return None if size is None else size / _GIB


def found_locally(model: str, folder: Path, env: Mapping[str, str]) -> Path | None:
    """Where a model lies on this machine: a local path, or the newest snapshot in the hub's cache; None where it does not."""
    return located(model, folder) or (None if is_path(model) else _cached(model, env))


def _files_bytes(folder: Path) -> float | None:
    for kind in KINDS:
        files = [path for path in folder.glob(kind) if path.is_file()]
        # Mistral's repositories hold the same weights a second time under this name.
        parts = [path for path in files if not path.name.startswith("consolidated")]
        if files:
            return float(sum(path.stat().st_size for path in parts or files))
    return None


def _cached(model: str, env: Mapping[str, str]) -> Path | None:
    """The newest snapshot in the hub's cache."""
    snapshots = _cache(env) / f"models--{model.replace('/', '--')}" / "snapshots"
    try:
        found = [path for path in snapshots.iterdir() if path.is_dir()]
        return max(found, key=lambda path: path.stat().st_mtime, default=None)
    except OSError:
        return None


def _cache(env: Mapping[str, str]) -> Path:
    """As ``huggingface_hub`` finds it."""
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"])
    if env.get("HF_HOME"):
        return Path(env["HF_HOME"]) / "hub"
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface" / "hub"


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
