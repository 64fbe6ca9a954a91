"""A speculative config whose values were read, beside the flags of the servers: what rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.server_flags import value_of
from pytest_specdec.core.spec_methods import METHODS, plain_method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.core.places import KeyPath
    from pytest_specdec.core.vllm_versions import Versions


@dataclass(frozen=True)
class Given:
    """A speculative config whose values were read."""

    values: Mapping[str, Any]
    """By the keys' own names, without what is refused or left out."""
    written: Mapping[str, str]
    """How each key stands in the file."""
    unknown: tuple[str, ...]
    versions: Versions
    flags: tuple[str, ...]
    """Words of the command line of both servers."""

    def at(self, name: str, *inner: str | int) -> KeyPath:
        """Where a key stands; where it is missing, the config."""
        return ("speculative_config", self.written[name], *inner) if name in self.written else ("speculative_config",)

    @property
    def method(self) -> str | None:
        """By its name of today; None where it is left to vLLM, or no method."""
        method = plain_method(self.values.get("method"))
        if method is None and "method" not in self.written and self.values.get("model") in ("ngram", "[ngram]"):
            return "ngram"
        return method if method in METHODS else None

    @property
    def auto(self) -> bool:
        """Whether vLLM has to guess the method."""
        return self.values.get("method") is None and self.method is None

    def flag(self, option: str) -> int | None:
        """A flag of the servers that is a whole number."""
        text = value_of(self.flags, option)
        return int(text) if text is not None and text.isascii() and text.isdigit() else None
