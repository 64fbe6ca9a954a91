"""A model's local folder: its ``config.json`` and ``generation_config.json``, read for what they say about speculation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import model_paths
from pytest_specdec.core.draft_facts import ModelFacts, model_facts

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 4 * 2**20
"""A config is some kilobytes; what is larger is none."""


def read_model(model: str, folder: Path) -> ModelFacts | None:
    """The facts about a model value; None for a hub id, and for a folder without a config that can be read.

    Args:
        model: As the config names it.
        folder: The config's, from which a relative path counts.
    """
    path = model_paths.located(model, folder)
    if path is None or not path.is_dir():
        return None
    config = _object_in(path / "config.json")
    if config is None:
        return None
    return model_facts(model, config, _object_in(path / "generation_config.json") or {})


def _object_in(file: Path) -> dict[str, Any] | None:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
