"""A workload against the target, before servers are started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.serving.target_fit import obstacles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.load.prompt_reader import Prompt


def refuse_unsendable(config: SpecConfig, prompts: Iterable[Prompt], *, workload: str, max_tokens: int) -> None:
    """Refuse prompts that the target cannot take.

    Raises:
        CannotMeasure: There are such.
    """
    prompts = list(prompts)
    lengths = [(len(prompt.text.split()), prompt.max_tokens or max_tokens) for prompt in prompts if not prompt.turn]
    for what, remedy in obstacles(config, lengths, chats=any(prompt.messages is not None for prompt in prompts)):
        raise CannotMeasure(f"{config.path.name}, workload {workload}: {what}", remedy=remedy)
