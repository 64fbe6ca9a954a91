"""The private file with prompts and answers that differ: written only when it was asked for, readable by its owner alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.masked_text import masked_data
from pytest_specdec.reporting.result_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEPT_FILE = "outputs.json"


def write_kept(kept: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path, secrets: Sequence[str] = ()) -> None:
    """Replace the file in one step.

    Args:
        kept: By comparison, what was kept.
        folder: The result folder.
        secrets: Values that must not get into the file.

    Raises:
        ResultFileError: It cannot be written.
    """
    data = masked_data({key: list(entries) for key, entries in kept.items()}, secrets)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    replace_file(folder / KEPT_FILE, text + "\n", mode=0o600)
