"""Keys that the speculative config of the installed vLLM does not take, so that its server would exit: certain, where the tables only suppose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.spec_fields import FIELDS
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.serving.installed_sources import sources_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.config import SpecConfig


def refused_keys(config: SpecConfig, version: str) -> Iterator[Problem]:
    """Keys that are no fields there; none where the sources cannot be read, or do not say that others are refused.

    Args:
        config: Whose speculative config is looked at.
        version: Of the vLLM behind its command, for the words.
    """
    found = sources_behind(config).get("keys")
    if found is None:
        return
    fields, others = found
    usual = [name for name in fields if name not in FIELDS or FIELDS[name].kind not in ("internal", "trap")]
    for key in config.speculative_config:
        # A hyphenated spelling stands or falls with its version, which the tables judge.
        if str(key).replace("-", "_") in {*fields, *others}:
            continue
        meant = did_you_mean(str(key), usual, cutoff=0.75)
        what = f"the installed vLLM {version} refuses this: its speculative config has no such key"
        yield Problem(("speculative_config", key), what, f"Did you mean {meant!r}?" if meant else "Remove it.")
