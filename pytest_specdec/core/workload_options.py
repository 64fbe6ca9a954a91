"""How prompts are taken from a workload's file: what a config's entry may say besides the path."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

MultiTurn = Literal["first", "last", "recorded", "own"]
OnBadLine = Literal["error", "skip"]
Column = Literal["prompt", "messages", "conversations", "turns", "category", "max_tokens"]
COLUMNS: tuple[str, ...] = get_args(Column)
MULTI_TURN: tuple[str, ...] = get_args(MultiTurn)
HUB = "hf:"
"""What stands before a Hugging Face dataset's id where a path could stand."""


@dataclass(frozen=True)
class WorkloadOptions:
    """Which prompts of a file become the workload."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Our name (one of ``COLUMNS``) to the file's; a dot leads into an object: ``metadata.kind``."""
    sample: int | None = None
    """So many prompts, drawn without replacement; None takes all."""
    by: Literal["category"] | None = None
    """Draw from each category in proportion; None draws from all alike."""
    shares: Mapping[str, float] | None = None
    """Share of each category in the sample, together 1; None takes the data's own."""
    seed: int = 0
    """Of the sample."""
    classify: bool = False
    """Give prompts without a category one by rules: code, structured or chat."""
    multi_turn: MultiTurn | None = None
    """What is sent of a conversation; None is the format's own way (see ``docs/reference/workloads.md``)."""
    on_bad_line: OnBadLine = "error"
    max_tokens: int | None = None
    """Where a line has none of its own."""
    split: str | None = None
    """Of a dataset on the hub."""
    subset: str | None = None
    """Likewise; the hub calls it a configuration."""

    def fingerprint(self) -> str:
        """A text that differs where the options differ from the defaults; empty where they do not."""
        plain = asdict(WorkloadOptions())
        stated = {name: value for name, value in asdict(self).items() if value != plain[name]}
        return json.dumps(stated, sort_keys=True) if stated else ""


def is_on_hub(path: object) -> bool:
    """Whether a workload's path is a dataset's id, ``hf:owner/name``."""
    return str(path).startswith(HUB)
