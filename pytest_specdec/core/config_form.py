"""Which of its two forms a config file has, and how its keys are found again in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.config_rules import speculation_problems
from pytest_specdec.core.config_schema import ENVELOPE_ONLY, OTHER_SPELLING
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specdec.core.config_text import ConfigText
    from pytest_specdec.core.places import KeyPath

_NEAR = 0.82
"""Likeness at which a key counts as a mistyped key of the envelope. vLLM's own keys stay below (a test holds them to it)."""
_TELLING = ("method", "num_speculative_tokens", "num-speculative-tokens")
"""Keys that every speculative config has one of, apart from drafts that describe themselves."""


@dataclass(frozen=True)
class ConfigForm:
    """A config file as an envelope, whichever form it has."""

    text: ConfigText
    data: Mapping[str, Any]
    """The envelope; a bare config stands under ``speculative_config``."""
    bare: bool

    def where(self, keys: KeyPath) -> str:
        """The place of a key of the envelope, named as the file has it."""
        return self.text.where(self.as_written(keys))

    def as_written(self, keys: KeyPath) -> KeyPath:
        """From the envelope's key path to the file's."""
        if keys[:1] != ("speculative_config",):
            return keys
        if self.bare:
            return keys[1:]
        return (
            (OTHER_SPELLING, *keys[1:])
            if isinstance(self.text.data, dict) and OTHER_SPELLING in self.text.data
            else keys
        )


def form_of(text: ConfigText) -> tuple[ConfigForm | None, list[Problem]]:
    """The file as an envelope, or the reasons why its form cannot be told.

    An envelope has ``speculative_config`` or another key that only envelopes have; everything else is a bare config. What is
    only nearly one or the other is refused, because ``model`` is the target in one form and the draft in the other.
    """
    data = text.data
    if not isinstance(data, dict) or not data:
        return None, [
            Problem((), f"the config {problem.what}", problem.remedy)
            for problem in speculation_problems(data, given=True)
        ]
    if not ENVELOPE_ONLY.isdisjoint(data) or OTHER_SPELLING in data:
        if OTHER_SPELLING in data and "speculative_config" in data:
            return None, [Problem((OTHER_SPELLING,), "is the same key as speculative_config", "Keep one of them.")]
        spelt = {"speculative_config" if key == OTHER_SPELLING else key: value for key, value in data.items()}
        return ConfigForm(text, spelt, bare=False), []
    near = list(_near_misses(data))
    return (None, near) if near else (ConfigForm(text, {"speculative_config": data}, bare=True), [])


def _near_misses(data: Mapping[str, Any]) -> Iterator[Problem]:
    unclear = "Until that is clear, `model` could be the target or the draft."
    for key, value in data.items():
        if meant := did_you_mean(key, sorted(ENVELOPE_ONLY), cutoff=_NEAR):
            yield Problem((key,), "is no key of a config", f"Did you mean {meant!r}? {unclear}")
        elif isinstance(value, dict) and any(telling in value for telling in _TELLING):
            what = "holds a speculative config under a name that is not known"
            yield Problem((key,), what, f"Did you mean 'speculative_config'? {unclear}")
    if set(data) == {"model"}:
        what = "stands alone: it is the draft in a speculative config, and the target in an envelope"
        yield Problem(("model",), what, "Add `method` for a draft, or `speculative_config` beside a target.")
