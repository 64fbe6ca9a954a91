"""The folder of saved results: one file for each run, named so that their order is that of the runs."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.saved import SAVE_ONE, StoredRun, run_name
from pytest_specdec.reporting.result_file import read_result, write_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.results import ResultDocument

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*(?:-[A-Za-z0-9._]+)*")
_FILE = re.compile(r"(?P<when>\d{8}T\d{6}Z)(?:-(?P<number>\d+))?_(?P<commit>[0-9a-f]{12}|none)(?:_(?P<name>.+))?\.json")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def save_run(
    document: ResultDocument, folder: Path, *, name: str, revision: Mapping[str, str], secrets: Sequence[str] = ()
) -> Path:
    """Write one run into the folder, as ``20261130T054126Z_4f2a1c9d03b5_NAME.json``.

    Args:
        document: What was measured and judged.
        folder: Created where it is not there.
        name: What the run shall be found by; empty for none.
        revision: ``commit``, ``branch`` and ``dirty``, as far as known; they are kept in the document's environment.
        secrets: See :meth:`ResultDocument.to_json`.

    Raises:
        ResultFileError: It cannot be written.
    """
    known = dict(revision) | ({"saved_as": name} if name else {})
    document = replace(document, environment=document.environment | known)
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(document.created_unix_s))
    end = "_".join(filter(None, (revision.get("commit", "none")[:12], name)))
    path = folder / f"{when}_{end}.json"
    number = 1
    while path.exists():  # two runs of one second
        number += 1
        path = folder / f"{when}-{number}_{end}.json"
    write_result(document, path, secrets)
    return path


def run_files(folder: Path) -> list[Path]:
    """The files of the folder, the newest run first; files with other names are none."""
    found = [(match, path) for path in folder.glob("*.json") if (match := _FILE.fullmatch(path.name))]
    return [
        path for _, path in sorted(found, key=lambda one: (one[0]["when"], int(one[0]["number"] or 1)), reverse=True)
    ]


def stored_run(path: Path, *, proven_only: bool = False) -> StoredRun:
    """One file as a run.

    Raises:
        ResultFileError: It cannot be read.
    """
    try:
        document = read_result(path)
    except ResultFileError as error:
        if _FILE.fullmatch(path.name) is None:
            raise
        # To pass over it would be to compare with another run than is said.
        remedy = f"{error.remedy} Until then move it out of the folder of saved runs."
        raise ResultFileError(error.what, where=error.where, remedy=remedy) from None
    return StoredRun(run_name(document, path.name), document, proven_only=proven_only)


def runs_called(what: str, folder: Path, *, here: Path) -> tuple[str, Iterator[StoredRun]]:
    """The runs that a word means, the newest first, read one by one, and what they are in words.

    Args:
        what: ``last``, a result file, the name that a run was saved as, a commit (seven digits or more), or a branch.
        folder: Of saved results.
        here: What a file's path is relative to.

    Raises:
        ResultFileError: No run is meant by it.
    """
    files = run_files(folder)
    if what != "last" and ((here / what).is_file() or what.endswith(".json")):
        return what, iter([stored_run(here / what)])
    if not files:
        raise ResultFileError(f"no result is saved in {folder}", where=what, remedy=SAVE_ONE)
    if what == "last":
        return str(folder), (stored_run(path, proven_only=True) for path in files)
    named = [path for path in files if (match := _FILE.fullmatch(path.name)) and match["name"] == what]
    if not named and _COMMIT.fullmatch(what):
        named = [
            path for path in files if (match := _FILE.fullmatch(path.name)) and match["commit"].startswith(what[:12])
        ]
    if named:
        return f"run {what}", map(stored_run, named)
    of_branch = (stored_run(path, proven_only=True) for path in files)
    chosen = [run for run in of_branch if run.document.environment.get("branch") == what]
    if not chosen:
        raise ResultFileError(
            f"no run saved in {folder} has that name, commit or branch, and it is no file", where=what, remedy=SAVE_ONE
        )
    return f"branch {what}", iter(chosen)
