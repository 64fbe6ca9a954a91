"""The JSON of a result file: its versions, and the samples of its runs, which it holds as columns.

Version 1 held the requests of a run as a list of objects. Version 2 holds them as columns
(:mod:`pytest_specdec.core.sample_columns`). A file of an older version is brought to the newest one, step by step.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.sample_columns import Damaged, columns_of, samples_from
from pytest_specdec.core.samples import RequestSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import TypeAdapter

    from pytest_specdec.core.samples import Comparison

SCHEMA_VERSION = 2
NOT_EDITED = "Run the session again; result files are not meant to be edited."


def parsed(text: str | bytes, where: str = "") -> dict[str, Any]:
    """The document as JSON-like data of the newest version.

    Raises:
        ResultFileError: Not JSON, not a result file, of a newer version, or an older one that is damaged.
    """
    from pydantic_core import from_json  # a third of the time and memory that json takes for large files

    try:
        data = from_json(text)
    except ValueError as error:
        remedy = "It may be cut off; run the session again."
        raise ResultFileError(f"is not JSON: {error}", where=where, remedy=remedy) from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ResultFileError(
            "is not a result of pytest-specdec: it has no schema_version",
            where=where,
            remedy="Give the results.json that a session wrote, by default .specdec/results.json.",
        )
    if version > SCHEMA_VERSION:
        raise ResultFileError(
            f"has schema version {version}, but this pytest-specdec reads versions up to {SCHEMA_VERSION}",
            where=where,
            remedy="Upgrade pytest-specdec to at least the version that wrote the file.",
        )
    for older in range(version, SCHEMA_VERSION):
        _UPGRADES[older](data, where)
    upgraded: dict[str, Any] = data | {"schema_version": SCHEMA_VERSION}
    return upgraded


def _rows_to_columns(data: Mapping[str, Any], where: str) -> None:
    """From version 1 to 2."""
    from pydantic import ValidationError

    for place, run in _runs(data):
        try:
            samples = _rows_adapter().validate_json(json.dumps(run.get("samples")), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            inner = ".".join(str(part) for part in first["loc"])
            raise damaged(f"{place}.samples.{inner}: {first['msg']}", where) from None
        run["samples"] = columns_of(samples)


_UPGRADES: dict[int, Callable[[Mapping[str, Any], str], None]] = {1: _rows_to_columns}
"""From a version to the next one, in place."""


@cache
def _rows_adapter() -> TypeAdapter[tuple[RequestSample, ...]]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[RequestSample, ...])


def samples_taken_out(data: Mapping[str, Any], where: str = "") -> dict[str, list[Sequence[RequestSample]]]:
    """The samples of every run of every comparison; the data keeps runs without any.

    Raises:
        ResultFileError: They are damaged.
    """
    taken: dict[str, list[Sequence[RequestSample]]] = {}
    for place, run in _runs(data):
        columns, run["samples"] = run.get("samples"), []
        try:
            taken.setdefault(place.rpartition(".runs.")[0], []).append(samples_from(columns))
        except Damaged as error:
            raise damaged(f"{place}.samples.{error}", where) from None
    return taken


def with_columns(data: dict[str, Any], comparisons: Mapping[str, Comparison], secrets: Sequence[str]) -> dict[str, Any]:
    """The data of a document whose runs have no samples, with those of the comparisons put in; secrets masked.

    Raises:
        ResultFileError: A number is not finite.
    """
    for key, comparison in comparisons.items():
        for number, (run, target) in enumerate(zip(comparison.runs, data["comparisons"][key]["runs"], strict=True)):
            try:
                columns = columns_of(run.samples)
            except Damaged as error:
                place = f"$.comparisons.{key}.runs[{number}].samples.{error}".partition(":")[0]
                raise not_finite(place) from None
            target["samples"] = {name: _masked(column, secrets) for name, column in columns.items()}
    return data


def _masked(column: Any, secrets: Sequence[str]) -> Any:
    if not isinstance(column, list):  # packed numbers
        return column
    texts = {value: masked_text(value, secrets) for value in {value for value in column if isinstance(value, str)}}
    return [texts[value] if isinstance(value, str) else value for value in column] if texts else column


def not_finite(place: str | None) -> ResultFileError:
    """For a document that cannot be written."""
    return ResultFileError(
        f"the result holds a number that is not finite, at {place}",
        remedy="This is a mistake in pytest-specdec or in a hook that adds measurements: please report it.",
    )


def damaged(what: str, where: str) -> ResultFileError:
    """For a document that cannot be read; ``what`` is ``PLACE: what is wrong``."""
    return ResultFileError(f"is damaged at {what}", where=where, remedy=NOT_EDITED)


def _runs(data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every run with its place; what has not the shape of one is left to whoever checks the rest."""
    comparisons = data.get("comparisons")
    for key, comparison in comparisons.items() if isinstance(comparisons, dict) else ():
        runs = comparison.get("runs") if isinstance(comparison, dict) else None
        for number, run in enumerate(runs if isinstance(runs, list) else ()):
            if isinstance(run, dict):
                yield f"comparisons.{key}.runs.{number}", run
