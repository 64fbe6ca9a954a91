"""Flags that the installed vLLM does not have, so that its server would exit.

Its sources are read for too much rather than too little: what is missing there is surely no flag, and what is found there may be none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.config_paths import server_words
from pytest_specdec.core.errors import Finding
from pytest_specdec.core.places import key_path
from pytest_specdec.core.server_flags import SINCE, option_of, words_of
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.serving.command import command_of
from pytest_specdec.serving.installed_sources import sources_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.config import SpecConfig


@dataclass(frozen=True)
class InstalledFlags:
    """Names in the sources of one vLLM, with hyphens between words and without those before them."""

    stated: frozenset[str]
    """Written as flags."""
    fields: frozenset[str]
    """Of settings, of which vLLM makes flags by their names."""

    def has(self, option: str) -> bool:
        """Whether an option may be a flag; argparse takes the beginning of a name for the name."""
        return any(name.startswith(option) for name in (*self.stated, *self.fields))

    def meant(self, option: str) -> str | None:
        """The flag that a slip was meant to be."""
        return did_you_mean(option, self.stated, cutoff=0.75)


def flags_behind(config: SpecConfig) -> InstalledFlags | None:
    """The flags of the vLLM that a config starts; None where its sources do not tell them."""
    found = sources_behind(config).get("flags")
    return None if found is None else InstalledFlags(*(frozenset(map(_hyphenated, names)) for names in found))


def unknown_flags(config: SpecConfig, version: str, flags: Sequence[str] = ()) -> Iterator[Finding]:
    """Flags that stand nowhere in the sources of the vLLM behind a config's command, so that it would exit.

    Args:
        config: Whose command, ``serve`` and ``serve_specdec`` are looked at, with the files of flags that they name.
        version: Of that vLLM, for the words.
        flags: Further words of both servers' command line.
    """
    known = flags_behind(config)
    if known is None:
        return
    command = command_of(config)
    behind = command[command.index("-m") + 2 :] if "-m" in command else command[1:]
    for key, given in (
        ("command", behind),
        ("serve", config.serve),
        ("serve_specdec", config.serve_specdec),
        ("", flags),
    ):
        options = dict.fromkeys(option_of(word) for word in server_words(given, config.folder) if word.startswith("--"))
        for option in options:
            if option is None or option in SINCE or known.has(option):
                continue
            named = given.items() if isinstance(given, dict) else ()
            names = [name for name, value in named if option_of(words_of({name: value})[0]) == option]
            where = config.where(key_path((key, *names[:1]))) if key else "behind --"
            meant = known.meant(option)
            remedy = f"Did you mean {meant.replace('-', '_') if names else f'--{meant}'}?" if meant else "Remove it."
            yield Finding("error", where, f"vLLM {version} has no flag --{option}, and exits when it sees one", remedy)


def _hyphenated(name: str) -> str:
    return name.replace("_", "-").strip("-")
