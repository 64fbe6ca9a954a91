"""``model`` values: hub id or local folder, and what vLLM reads out of the name of a path."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pytest_specdec.core.suggest import did_you_mean

_NEAR = 0.75
"""Likeness from which a neighbour's name is suggested."""
_NO_DRAFT_CHECKPOINT = ("ngram", "[ngram]", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class")
_KEPT = ("eagle", "eagle3", "dflash", "dspark")
"""Stated methods that vLLM never overrides; all others give way to a word in the path."""
_WORDS = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""Words that vLLM looks for in the lower-cased path, in its order, and the method that it then takes."""


def is_path(model: str) -> bool:
    """Whether this can only be a path, never a hub id."""
    return model.startswith(("./", "../", "/", "~")) or model in (".", "..")


def located(model: str, folder: Path) -> Path | None:
    """The local folder or file that a model value names, seen from ``folder``; None when there is none (a hub id)."""
    try:
        path = folder / as_argument(model)
        return path if path.exists() else None
    except (OSError, ValueError):  # too long for a path
        return None


def near_path(path: str, folder: Path) -> str | None:
    """What a path that leads nowhere was meant to be, spelt as it is: the neighbour with the most similar name.

    None where there is none, or where what stands above it does not exist either.
    """
    above, slash, name = as_argument(path).rstrip("/").rpartition("/")
    try:
        names = [neighbour.name for neighbour in (folder / (above or slash or ".")).iterdir()]
    except (OSError, ValueError):
        return None
    near = did_you_mean(name, names, cutoff=_NEAR)
    return None if near is None or near == name else f"{above}{slash}{near}"


def as_argument(model: str) -> str:
    """The value as vLLM can use it: as written, because the server runs in the config's folder; only ``~`` is expanded."""
    return os.path.expanduser(model)  # noqa: PTH111 - Path would drop the leading ./


def carried_over(model: str, here: Path, folder: Path) -> str:
    """A model value that was written for the folder ``here`` (an option), for a server that runs in ``folder``.

    Kept relative, because vLLM guesses the method from words anywhere in the path, parents included.
    """
    if Path(model).is_absolute() or model.startswith("~") or located(model, here) is None:
        return as_argument(model)
    return os.path.relpath(here / model, folder)


def misleading_word(method: str | None, draft: str) -> str | None:
    """Why the path of a draft does not suit the stated method; None when it does, or when nothing was stated.

    Args:
        method: As the config states it.
        draft: The value that vLLM gets, not the folder it resolves to.
    """
    if method is None or method in _NO_DRAFT_CHECKPOINT:
        return None
    found = {word: taken for word, taken in _WORDS.items() if word in draft.lower()}
    if method in _KEPT:
        found.pop("eagle-", None)
    if not found or method in found.values():
        return None
    word, taken = next(iter(found.items()))
    outcome = (
        f"vLLM keeps {method}, so check that it is the right one"
        if method in _KEPT
        else f"vLLM may take {taken} instead"
    )
    return f'holds the word "{word}", and the method is {method}: {outcome}'


def is_speculators_checkpoint(model: Path) -> bool:
    """Whether a local folder brings its own speculative config, with which vLLM speculates unasked."""
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("speculators_config") is not None
