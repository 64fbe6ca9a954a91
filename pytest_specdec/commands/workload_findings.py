"""The workloads of an envelope, read and held against its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import Finding, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.config import SpecConfig


def workload_findings(config: SpecConfig) -> Iterator[Finding]:
    """What keeps the workloads from being read or sent; a dataset on the hub is not asked for."""
    from pytest_specdec.core.workload_options import is_on_hub
    from pytest_specdec.load.workload import read_workload
    from pytest_specdec.serving.target_fit import obstacles

    stated = config.measure.load_fields().get("max_tokens") or 0
    for name, entry in config.workloads.items():
        if is_on_hub(entry.path):
            continue
        where = config.where(f"workloads.{name}.path")
        try:
            prompts = read_workload(entry.path, name=name, options=entry.options()).prompts
        except WorkloadError as error:
            yield Finding("error", where, str(error))
            continue
        lengths = [(len(prompt.text.split()), prompt.max_tokens or stated) for prompt in prompts if not prompt.turn]
        for what, remedy in obstacles(config, lengths, chats=any(prompt.messages is not None for prompt in prompts)):
            yield Finding("error", where, what, remedy)
