"""The files of a model's folder: weights that are missing or cut short, and whether there is a chat template.

Of weights only the headers are read, so this costs the same for a model of any size.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.serving.weights import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000
"""What the safetensors library takes at most."""
_POINTER = b"version https://git-lfs"
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates", "tekken.json")
_WITH_FALLBACK = (
    "blip",
    "clip",
    "colpali",
    "deepseek",
    "fuyu",
    "minicpm",
    "paligemma",
    "qwen",
    "siglip",
    "unlimited",
    "chameleon",
)
"""Model types for which vLLM brings a template of its own."""


def missing_weights(folder: Path) -> bool:
    """Whether a model's folder with a ``config.json`` and a tokenizer holds no file of weights."""
    whole = (folder / "config.json").is_file() and any((folder / name).is_file() for name in _TOKENIZERS)
    return whole and not any(True for kind in (*KINDS, "*.pth") for _ in folder.rglob(kind))


def damaged_weights(folder: Path) -> list[tuple[str, str, str]]:
    """File, what is wrong with it and what to do, for each file of safetensors that cannot be loaded."""
    found = []
    for file in sorted(folder.glob("*.safetensors")):
        try:
            fault = _fault(file)
        except OSError:
            continue
        if fault is not None:
            found.append((file.name, *fault))
    return found


def lacks_chat_template(folder: Path) -> bool:
    """Whether chats cannot be sent to the model in a folder, because nothing says how they become a prompt."""
    tokenizer = _object_in(folder / "tokenizer_config.json")
    if tokenizer is None or tokenizer.get("chat_template") or any((folder / name).exists() for name in _TEMPLATES):
        return False
    kind = str((_object_in(folder / "config.json") or {}).get("model_type", ""))
    return (
        bool(kind)
        and not kind.startswith(_WITH_FALLBACK)
        and not str(tokenizer.get("tokenizer_class")).startswith("Mistral")
    )


def _fault(file: Path) -> tuple[str, str] | None:  # noqa: PLR0911 - one for each kind of damage
    again = "Copy or download it again."
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = opened.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        if _POINTER.startswith(start) and start:
            return "is a pointer of Git LFS, not the weights", "Run `git lfs pull` there."
        if len(start) < _LENGTH_BYTES:
            return f"holds {size} bytes: it is cut short", again
        if length > size - _LENGTH_BYTES and length <= _MOST_HEADER_BYTES:
            return f"is cut short: {size} bytes, and its header alone has {length}", again
        if length > _MOST_HEADER_BYTES:
            return "is damaged, or no file of safetensors", again
        header = opened.read(length)
    try:
        end = max(
            (tensor["data_offsets"][1] for name, tensor in json.loads(header).items() if name != "__metadata__"),
            default=0,
        )
        expected = _LENGTH_BYTES + length + int(end)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return "is damaged: its header is not to be read", again
    if size < expected:
        return f"is cut short: {size} bytes of {expected}", again
    return (f"is damaged: {size} bytes where its header tells of {expected}", again) if size > expected else None


def _object_in(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def loads_files(words: Sequence[str]) -> bool:
    """Whether a command line leaves it at reading weights from the model's own files."""
    from pytest_specdec.core.server_flags import value_of

    return value_of(words, "load-format") in (None, "auto", "safetensors")
