"""The text of a config file: from a path to data with places, or to findings that say why not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import ConfigError, Finding
from pytest_specdec.core.places import KeyPath, Parsed, Place, key_path
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIXES = (".json", ".yaml", ".yml")
_INLINE_REMEDY = "Write it into a .json file and name that file."


@dataclass(frozen=True)
class ConfigText:
    """A config file that could be read."""

    name: str
    """The file as findings name it: relative to the current folder where it lies below it."""
    data: Any
    places: Mapping[KeyPath, Place]

    def place(self, keys: KeyPath) -> Place | None:
        """The place of a key, or of the nearest one around it that stands in the file."""
        known = keys
        while known and known not in self.places:
            known = known[:-1]
        return self.places.get(known)

    def where(self, keys: KeyPath = ()) -> str:
        """``eagle3.yaml:3:5: measure.rounds``: the place and the key path."""
        at = self.place(keys)
        text = f"{self.name}:{at.line}:{at.column}" if at else self.name
        return f"{text}: {key_path(keys)}" if keys else text


def read_config_text(path: str | Path) -> ConfigText:
    """Read a ``.json``, ``.yaml`` or ``.yml`` file.

    Raises:
        ConfigError: With every finding about the file's text: not there, no file, wrong suffix, not UTF-8, empty, or not
            the JSON or YAML that its suffix promises.
    """
    name = shown_path(path)
    if str(path).lstrip().startswith(("{", "[")):
        raise _refused("the option", "this is JSON itself, and a file's name is needed", _INLINE_REMEDY)
    suffix = Path(path).suffix.lower()
    raw = _bytes_of(Path(path), name)
    if suffix not in SUFFIXES:
        ending = f"the suffix {suffix}" if suffix else "a name without suffix"
        raise _refused(name, f"{ending} does not say how to read the file", f"Accepted are {', '.join(SUFFIXES)}.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        what = f"not UTF-8 text (byte 0x{raw[error.start]:02x})"
        raise _refused(f"{name}:{line}:{column}", what, "Save the file as UTF-8.") from None
    if not text.strip():
        raise _refused(
            name, "the file is empty", 'The shortest config is {"method": "ngram", "num_speculative_tokens": 4}.'
        )
    parsed = parse_config_text(text, suffix)
    if parsed.problems:
        raise ConfigError(
            [
                Finding("error", f"{name}:{problem.place.line}:{problem.place.column}", problem.what, problem.remedy)
                for problem in parsed.problems
            ]
        )
    return ConfigText(name, parsed.data, parsed.places)


def parse_config_text(text: str, suffix: str) -> Parsed:
    """Parse text as a file with this suffix (one of ``SUFFIXES``) would be. Never raises; problems are in the result."""
    if suffix == ".json":
        from pytest_specdec.core.strict_json import parse_json

        return parse_json(text)
    from pytest_specdec.core.strict_yaml import parse_yaml

    return parse_yaml(text)


def shown_path(path: str | Path) -> str:
    """The path as a person would type it here: relative where the file lies below the current folder."""
    try:
        return str(Path(os.path.abspath(path)).relative_to(Path.cwd()))  # noqa: PTH100 - resolve() would follow links
    except (ValueError, OSError):
        return str(path)


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            files = ", ".join(sorted(entry.name for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)[:5])
            raise _refused(
                name, "this is a folder", f"Name a file in it, such as {files}." if files else "Name a file."
            )
        if path.exists() and not path.is_file():
            raise _refused(name, "this is not a regular file", "Name a file.")
        return path.read_bytes()
    except FileNotFoundError:
        raise _refused(name, "there is no such file", _neighbour(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused(name, f"the file cannot be read ({reason})") from None


def _neighbour(path: Path) -> str:
    folder = path.parent
    try:
        known = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in SUFFIXES]
    except OSError:
        return f"The folder {folder} is not there either." if not folder.exists() else ""
    near = did_you_mean(path.name, known)
    return f"Did you mean '{path.with_name(near)}'?" if near else f"Looked in {folder.absolute()}."


def _refused(where: str, what: str, remedy: str = "") -> ConfigError:
    return ConfigError([Finding("error", where, what, remedy)])
