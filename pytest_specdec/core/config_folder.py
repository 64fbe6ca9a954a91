"""A folder where a config file could be named: every config in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.core.config_text import SUFFIXES, shown_path
from pytest_specdec.core.errors import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_MODELS = ("*.safetensors", "*.bin", "*.gguf", "tokenizer.json")
"""What lies beside a model's ``config.json`` and never beside a speculative config."""


def files_behind(paths: Iterable[str | Path]) -> tuple[list[str | Path], list[Finding]]:
    """The config files that are meant, in order: files as they are, folders as their configs sorted by name.

    Subfolders and hidden files (an editor's backups) are not looked at. Every other file with a config's suffix counts, so
    that one which is no config is reported and never silently left out.

    Returns:
        The files, and an error for each folder without one.
    """
    files: list[str | Path] = []
    findings: list[Finding] = []
    for path in paths:
        if not _is_folder(path):
            files.append(path)
            continue
        try:
            found = _configs_in(Path(path))
        except OSError as error:
            findings.append(Finding("error", shown_path(path), f"the folder cannot be read ({error.strerror})"))
            continue
        problem = _problem(Path(path), found)
        if problem:
            findings.append(problem)
        else:
            files += found
    return files, findings


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # no path at all: whoever reads the file says so
        return False


def _configs_in(folder: Path) -> list[str | Path]:
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return [e for e in entries if e.suffix.lower() in SUFFIXES and not e.name.startswith(".") and not e.is_dir()]


def _problem(folder: Path, found: list[str | Path]) -> Finding | None:
    name = shown_path(folder)
    if (folder / "config.json").is_file() and any(next(folder.glob(pattern), None) for pattern in _OF_MODELS):
        remedy = 'Write a config that names it, such as {"method": "eagle3", "model": "' + name + '", …}.'
        return Finding("error", name, "this is a model's folder, not one of configs", remedy)
    if not found:
        remedy = "Subfolders are not looked at; name the folder that holds the configs, or a file."
        return Finding("error", name, f"there is no config in this folder ({', '.join(SUFFIXES)})", remedy)
    return None
