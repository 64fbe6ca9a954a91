"""Which flags the installed vLLM has, read in its sources without importing it: what stands in none of them makes its server exit.

Read is too much rather than too little: every ``--name`` in a text and every annotated field of a class, because vLLM makes flags of its
settings. So what is missing there is surely no flag, and what is found there may be none.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pytest_specdec.core.config_paths import server_words
from pytest_specdec.core.errors import Finding, LaunchError
from pytest_specdec.core.places import key_path
from pytest_specdec.core.server_flags import SINCE, option_of, words_of
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.serving.command import command_of
from pytest_specdec.serving.versions import interpreter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.config import SpecConfig

_TIMEOUT_S = 20.0
_PATHS = {"PATH", "PYTHONPATH"}
"""Variables of a config with which another vLLM may run than the one that is asked."""
# A plugin of vLLM may add flags to its parser, so its sources are read, too.
_QUESTION = r"""
import importlib.metadata, importlib.util, json, pathlib, re

def folder(package):
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).parent if spec and spec.origin else pathlib.Path("nowhere")

root = folder("vllm")
plugins = {
    entry.value.partition(":")[0].partition(".")[0]
    for one in importlib.metadata.distributions()
    for entry in one.entry_points
    if entry.group in ("vllm.platform_plugins", "vllm.general_plugins")
}
parts = [root / part for part in ("config", "engine", "entrypoints", "platforms", "utils")]
parts += [folder(plugin) for plugin in plugins - {"vllm"}]
sources = [sorted(part.rglob("*.py")) for part in parts]
texts = [file.read_text(encoding="utf-8", errors="replace") for files in sources for file in files]
stated = {name for text in texts for name in re.findall(r"--(?:no-)?([A-Za-z][A-Za-z0-9_-]*)", text)}
fields = {name for text in texts for name in re.findall(r"^[ \t]+([A-Za-z]\w*)[ \t]*:", text, re.MULTILINE)}
print(json.dumps([sorted(stated), sorted(fields)] if all(sources) else None))
"""


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


def flags_behind(argv: Sequence[str]) -> InstalledFlags | None:
    """The flags of the vLLM that a command starts; None where they cannot be told: wrappers, containers."""
    interpreter = interpreter_of(tuple(argv))
    return None if interpreter is None else _ask(interpreter)


@cache
def _ask(interpreter: str) -> InstalledFlags | None:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user chose to run vLLM with
            [interpreter, "-c", _QUESTION], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return None if found is None else InstalledFlags(*(frozenset(map(_hyphenated, names)) for names in found))


def unknown_flags(config: SpecConfig, version: str, flags: Sequence[str] = ()) -> Iterator[Finding]:
    """Flags that stand nowhere in the sources of the vLLM behind a config's command, so that it would exit.

    Args:
        config: Whose command, ``serve`` and ``serve_specdec`` are looked at, with the files of flags that they name.
        version: Of that vLLM, for the words.
        flags: Further words of both servers' command line.
    """
    try:
        command = command_of(config)
    except LaunchError:
        return
    if _PATHS & config.env.keys() or (known := flags_behind(command)) is None:
        return
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
