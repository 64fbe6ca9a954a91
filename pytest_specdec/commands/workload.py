"""What a workload file holds, or what is wrong with it."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import COLUMNS, MULTI_TURN, WorkloadOptions, is_on_hub

if TYPE_CHECKING:
    from pytest_specdec.load.prompt_reader import Prompt
    from pytest_specdec.load.workload_summary import WorkloadSummary

_QUANTILES = {0.0: "shortest", 0.5: "median", 1.0: "longest"}
_EXAMPLES = 3
_EXAMPLE_WIDTH = 90


@dataclass
class Looked:
    """What one pass over a file has shown."""

    path: str
    format: str
    sha256: str
    summary: WorkloadSummary
    notes: tuple[str, ...]
    classes: Counter[str] = field(default_factory=Counter)
    """Class to prompts, of ``--classify``."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """The first prompts of each class."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a file or folder of prompts, a bundled workload's name, or a dataset: hf:owner/name",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--classify", action="store_true", help="show the class each prompt would get by rules")
    parser.add_argument(
        "--column",
        metavar="OURS=THEIRS",
        action="append",
        type=_column,
        default=[],
        help=f"what the file calls one of {', '.join(COLUMNS)}; repeatable",
    )
    parser.add_argument("--multi-turn", choices=MULTI_TURN, help="what is sent of a conversation")
    parser.add_argument("--skip-bad-lines", action="store_true", help="count them instead of refusing the file")
    parser.add_argument("--split", help="of a dataset")
    parser.add_argument("--subset", help="of a dataset")


def run(arguments: argparse.Namespace) -> str:
    """Format, counts, lengths and notes.

    Raises:
        WorkloadError: The file cannot be used; every bad line is named.
    """
    options = WorkloadOptions(
        columns=dict(arguments.column),
        multi_turn=arguments.multi_turn,
        on_bad_line="skip" if arguments.skip_bad_lines else "error",
        split=arguments.split,
        subset=arguments.subset,
    )
    if not is_on_hub(arguments.file) and (options.split or options.subset):
        raise WorkloadError("--split and --subset belong to a dataset on the hub", remedy="Such as hf:owner/name.")
    try:
        looked = look(_path(arguments.file), options, classify=arguments.classify)
    except WorkloadError as error:
        raise WorkloadError(_spoken(error.what), where=error.where, remedy=_spoken(error.remedy)) from None
    looked.notes = tuple(map(_spoken, looked.notes))
    return json.dumps(_as_data(looked), indent=2) if arguments.json else "\n".join(_lines(looked))


def _path(given: str) -> Path:
    """A file or folder as it stands; where there is none, the bundled workload of that name."""
    from pytest_specdec.load.bundled import bundled_workloads

    path = Path(given)
    return path if path.exists() else bundled_workloads().get(given, path)


_SPOKEN = {
    "`on_bad_line: skip` in the config": "--skip-bad-lines",
    "`multi_turn: recorded`": "--multi-turn recorded",
    "`classify: true`": "--classify",
    "`columns`": "--column",
}
"""Keys of a config's entry, and the options of this command that do the same."""


def _spoken(text: str) -> str:
    def options(found: re.Match[str]) -> str:
        return " ".join(f"--column {pair.replace(': ', '=')}" for pair in found[1].split(", "))

    text = re.sub(r"`columns: \{([^}]*)\}`", options, text)
    for key, option in _SPOKEN.items():
        text = text.replace(key, option)
    return text


def look(path: Path, options: WorkloadOptions, *, classify: bool = False) -> Looked:
    """Reads a file once, holding no more than a few prompts.

    Raises:
        WorkloadError: As :func:`run`.
    """
    from pytest_specdec.load.workload import Reading
    from pytest_specdec.load.workload_summary import Tally

    reading, tally = Reading(path, options), Tally()
    classes: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for prompt in reading.prompts():
        tally.add(prompt)
        if classify:
            name, text = _classified(prompt)
            classes[name] += 1
            if len(shown := examples.setdefault(name, [])) < _EXAMPLES:
                shown.append(text)
    notes = (*reading.notes(), *tally.notes())
    return Looked(str(path), reading.format(), reading.sha256(), tally.summary(), notes, classes, examples)


def _classified(prompt: Prompt) -> tuple[str, str]:
    from pytest_specdec.load.classify import asked_text, class_of

    text = " ".join(asked_text(prompt).split())
    return class_of(prompt), text if len(text) <= _EXAMPLE_WIDTH else f"{text[: _EXAMPLE_WIDTH - 3]}..."


def _lines(looked: Looked) -> list[str]:
    summary = looked.summary
    lines = [
        looked.path,
        f"format       {looked.format}",
        f"prompts      {summary.prompts}   ({summary.chats} chats, {summary.prompts - summary.chats} plain)",
    ]
    width = max(len(str(count)) for _, count in summary.categories)
    lines += [
        f"{'categories' if index == 0 else '':<13}{count:>{width}}   {'without a category' if category is None else category}"
        for index, (category, count) in enumerate(summary.categories)
    ]
    lengths = ", ".join(
        f"{_QUANTILES.get(share, f'{share:.0%} up to')} {length}" for share, length in summary.characters
    )
    lines.append(f"characters   {lengths}")
    if summary.max_tokens is not None:
        low, high = summary.max_tokens
        lines.append(f"max_tokens   {low} .. {high}   (stated by {summary.own_max_tokens} prompts)")
    if summary.forms or summary.tools:
        lines.append(f"asked for    a form by {summary.forms} prompts, tools offered by {summary.tools}")
    lines.append(f"sha256       {looked.sha256}")
    lines += [f"note: {note}" for note in looked.notes]
    for name, count in looked.classes.most_common():
        lines += ["", f"{name}   {count} of {summary.prompts} by the rules, such as"]
        lines += [f"    {example}" for example in looked.examples[name]]
    return lines


def _as_data(looked: Looked) -> dict[str, Any]:
    classes = {
        name: {"prompts": count, "examples": looked.examples[name]} for name, count in looked.classes.most_common()
    }
    return {
        "path": looked.path,
        "format": looked.format,
        "sha256": looked.sha256,
        **asdict(looked.summary),
        "categories": [{"category": category, "prompts": count} for category, count in looked.summary.categories],
        "characters": [{"quantile": share, "length": length} for share, length in looked.summary.characters],
        "notes": list(looked.notes),
        **({"classes": classes} if classes else {}),
    }


def _column(text: str) -> tuple[str, str]:
    ours, separator, theirs = text.partition("=")
    if ours not in COLUMNS or not separator or not theirs:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN, with NAME one of {', '.join(COLUMNS)}")
    return ours, theirs
