"""The requests of a run as columns, which is how a result file holds them: compact, and quick to open.

A column is a list with one entry per request, and is left out where every request has the field's default. Fields that hold
several numbers per request (arrival times, token ids) are one long array of all requests in a row, with how many each has.
Such arrays are base64 of little-endian numbers: every float comes back as it was, to the last bit.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.samples import RequestSample, RequestSpecStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Ints

_SEVERAL = {
    "token_times_s": "<f8",
    "chunk_tokens": "<i8",
    "token_ids": "<i8",
    "spec.accepted_per_step": "<i8",
    "spec.drafted_per_step": "<i8",
}
"""Fields with several numbers per request, and the widest type that they need."""
_NESTED: Mapping[str, tuple[type, str]] = {"spec": (RequestSpecStats, "drafts"), "form": (AnswerForm, "blank")}
"""Fields that are records of their own, and which of its fields tells whether a request has one."""
_NARROWER = {"<i8": ("|i1", "<i2", "<i4", "<i8"), "<f8": ("<f8",)}
_NONE = -1
"""Count of a request whose field is null."""


class Damaged(ValueError):  # noqa: N818 - as in "is damaged at"
    """Columns that no writer makes; the text is ``PLACE: what``."""


def columns_of(samples: Sequence[RequestSample]) -> dict[str, Any]:
    """JSON-like data from which :func:`samples_from` makes the same samples.

    Raises:
        Damaged: A number is NaN or infinite.
    """
    data: dict[str, Any] = {"requests": len(samples)}
    for name, default, values in _fields(samples):
        if all(value == default for value in values):
            continue
        data[name] = _ragged(name, values) if name in _SEVERAL else values
    return data


def _fields(samples: Sequence[RequestSample]) -> Iterator[tuple[str, Any, list[Any]]]:
    """Every field with its default and its values; those of ``spec`` as ``spec.NAME``, of ``form`` likewise."""
    for name, default, _ in _expected():
        yield name, default, list(column(samples, name))


def _inner(name: str) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(_NESTED[name][0])


def _ragged(name: str, values: Sequence[Sequence[float] | None]) -> dict[str, Any]:
    import numpy as np

    known = _in_a_row(values, _SEVERAL[name])
    if not np.isfinite(known.flat).all():
        raise Damaged(f"{name}[{int(np.argmin(np.isfinite(known.flat)))}]: is not finite")
    return {"counts": known.counts.tolist(), "numbers": _packed(known.flat, _SEVERAL[name])}


def _packed(numbers: np.ndarray, widest: str) -> dict[str, str]:
    import numpy as np

    for kind in _NARROWER[widest]:
        limits = np.iinfo(kind) if kind != "<f8" else None
        if limits is None or not numbers.size or (numbers.min() >= limits.min and numbers.max() <= limits.max):
            break
    return {"type": kind, "base64": base64.b64encode(numbers.astype(kind).tobytes()).decode()}


def samples_from(data: Any) -> Sequence[RequestSample]:
    """Undo :func:`columns_of`; columns that this version does not know are ignored. The samples are made when one is looked at.

    Raises:
        Damaged: They are not of equal length, or not what a column holds.
    """
    requests = data.get("requests") if isinstance(data, dict) else None
    if type(requests) is not int or requests < 0:
        raise Damaged("requests: must be their number")
    columns: dict[str, Sequence[Any] | Numbers] = {}
    for name, default, kinds in _expected():
        if name in data:
            read = _unravelled if name in _SEVERAL else _checked
            columns[name] = read(name, data[name], requests, kinds)
        elif default is dataclasses.MISSING and requests:
            raise Damaged(f"{name}: is missing")
        else:
            columns[name] = [default] * requests
    return _ColumnSamples(requests, columns)


class _ColumnSamples(Sequence[RequestSample]):
    """As good as a tuple of samples, but columns until somebody looks at a sample."""

    def __init__(self, requests: int, columns: Mapping[str, Sequence[Any] | Numbers]) -> None:
        self._requests = requests
        self.columns = columns

    @functools.cached_property
    def _made(self) -> tuple[RequestSample, ...]:
        columns: dict[str, Iterable[Any]] = dict(self.columns)
        for name in _NESTED:
            columns[name] = _records(name, self.columns)
        in_order = (columns[field.name] for field in dataclasses.fields(RequestSample))
        return tuple(itertools.starmap(RequestSample, zip(*in_order, strict=True)))

    def __len__(self) -> int:
        return self._requests

    @overload
    def __getitem__(self, place: int) -> RequestSample: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RequestSample, ...]: ...

    def __getitem__(self, place: int | slice) -> RequestSample | tuple[RequestSample, ...]:
        return self._made[place]

    def __iter__(self) -> Iterator[RequestSample]:
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        return self._made == (tuple(other) if isinstance(other, _ColumnSamples) else other)

    def __hash__(self) -> int:
        return hash(self._made)

    def __repr__(self) -> str:
        return repr(self._made)


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A field with several numbers per request."""

    counts: Ints
    """How many each request has, -1 where the field is None; shape (requests,)."""
    flat: NDArray[Any]
    """All requests' numbers in a row."""

    @functools.cached_property
    def told(self) -> NDArray[np.bool_]:
        """Whether a request has the field; shape (requests,)."""
        told: NDArray[np.bool_] = self.counts != _NONE
        return told

    @functools.cached_property
    def sizes(self) -> Ints:
        """How many numbers each request has, 0 where the field is None."""
        return self.counts.clip(0)

    @functools.cached_property
    def ends(self) -> Ints:
        """Where each request's numbers end in the row."""
        return self.sizes.cumsum()

    def first(self, *, missing: float) -> NDArray[Any]:
        """The first number of each request, shape (requests,); ``missing`` where it has none."""
        return self._at(self.ends - self.sizes, missing)

    def last(self, *, missing: float) -> NDArray[Any]:
        """The last number of each request, likewise."""
        return self._at(self.ends - 1, missing)

    def sums(self, values: NDArray[Any]) -> Ints:
        """Sums of whole ``values``, one for each number, over the numbers of each request; shape (requests,)."""
        import numpy as np

        sums = np.zeros(len(self.counts), dtype=np.int64)
        some = self.sizes > 0
        if some.any():
            sums[some] = np.add.reduceat(values, (self.ends - self.sizes)[some], dtype=np.int64)
        return sums

    def of(self, chosen: NDArray[np.bool_]) -> NDArray[Any]:
        """The numbers of some requests; ``chosen`` has shape (requests,)."""
        import numpy as np

        return self.flat if chosen.all() else self.flat[np.repeat(chosen, self.sizes)]

    def only(self, chosen: NDArray[np.bool_]) -> Numbers:
        """The same for some requests, and None for the others."""
        import numpy as np

        return self if chosen.all() else Numbers(np.where(chosen, self.counts, _NONE), self.of(chosen))

    def _at(self, places: Ints, missing: float) -> NDArray[Any]:
        import numpy as np

        found = np.full(len(self.counts), missing)
        some = self.sizes > 0
        found[some] = self.flat[places[some]]
        return found

    def __iter__(self) -> Iterator[tuple[float, ...] | None]:
        row, start = tuple(self.flat.tolist()), 0
        for count in self.counts.tolist():
            yield None if count == _NONE else row[start : start + count]
            start += max(count, 0)


def column(samples: Sequence[RequestSample], name: str) -> Sequence[Any]:
    """A field of every sample; of a record in it as ``spec.NAME``, None where a sample has no such record."""
    if isinstance(samples, _ColumnSamples):
        if name in _NESTED:
            return list(_records(name, samples.columns))
        known = samples.columns[name]
        return list(known) if isinstance(known, Numbers) else known
    field, _, inner = name.partition(".")
    values = [getattr(sample, field) for sample in samples]
    return [None if one is None else getattr(one, inner) for one in values] if inner else values


def numbers(samples: Sequence[RequestSample], name: str) -> Numbers:
    """The same of a field with several numbers."""
    if isinstance(samples, _ColumnSamples) and isinstance(known := samples.columns[name], Numbers):
        return known
    return _in_a_row(column(samples, name), _SEVERAL[name])


def _in_a_row(values: Sequence[Sequence[float] | None], kind: str) -> Numbers:
    import numpy as np

    counts = np.array([_NONE if one is None else len(one) for one in values], dtype=np.int64)
    flat = itertools.chain.from_iterable(one for one in values if one is not None)
    return Numbers(counts, np.fromiter(flat, dtype=kind, count=int(counts.clip(0).sum())))


def _records(name: str, columns: Mapping[str, Iterable[Any]]) -> Iterator[Any]:
    record, tells = _NESTED[name]
    fields = [field.name for field in _inner(name)]
    at = fields.index(tells)
    for values in zip(*(columns[f"{name}.{field}"] for field in fields), strict=True):
        yield None if values[at] is None else record(*values)


def _expected() -> Iterator[tuple[str, Any, set[type]]]:
    """Every column: its name, its field's default, and the types that an entry may have."""
    for field in dataclasses.fields(RequestSample):
        if field.name not in _NESTED:
            yield field.name, field.default, _kinds(field)
    for name in _NESTED:
        for field in _inner(name):
            yield f"{name}.{field.name}", None, _kinds(field) | {type(None)}


def _kinds(field: dataclasses.Field[Any]) -> set[type]:
    types: dict[str, set[type]] = {
        "int": {int},
        "float": {float, int},
        "str": {str},
        "bool": {bool},
        "None": {type(None)},
    }
    return set().union(*(types.get(part, set()) for part in str(field.type).split(" | ")))


def _checked(name: str, data: Any, requests: int, kinds: set[type]) -> list[Any]:
    if not isinstance(data, list) or len(data) != requests:
        raise Damaged(f"{name}: must be a list of {requests} entries, one per request")
    if not set(map(type, data)) <= kinds or (
        float in kinds and not all(map(math.isfinite, (value for value in data if value is not None)))
    ):
        place = next(place for place, value in enumerate(data) if type(value) not in kinds or not _finite(value))
        raise Damaged(f"{name}[{place}]: {data[place]!r} does not belong there")
    return data


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _unravelled(name: str, data: Any, requests: int, _: set[type]) -> Numbers:
    import numpy as np

    try:
        counts, kind, text = data["counts"], data["numbers"]["type"], data["numbers"]["base64"]
        flat = np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{name}: not numbers per request ({error})") from None
    if kind not in _NARROWER[_SEVERAL[name]]:
        raise Damaged(f"{name}: numbers of type {kind!r}")
    _checked(f"{name}.counts", counts, requests, {int})
    if any(count < _NONE for count in counts) or sum(max(count, 0) for count in counts) != len(flat):
        raise Damaged(f"{name}: the counts do not add up to the numbers")
    if not np.isfinite(flat).all():
        raise Damaged(f"{name}: holds a number that is not finite")
    return Numbers(np.array(counts, dtype=np.int64), flat)


def columns_schema(sample: Mapping[str, Any], stats: Mapping[str, Any], form: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of what :func:`columns_of` makes.

    Args:
        sample: The JSON Schema of a ``RequestSample``.
        stats: That of a ``RequestSpecStats``.
        form: That of an ``AnswerForm``.
    """
    fields = {name: schema for name, schema in sample["properties"].items() if name not in _NESTED}
    for nested, schema in (("spec", stats), ("form", form)):
        fields |= {f"{nested}.{name}": inner for name, inner in schema["properties"].items()}
    several = {"$ref": "#/$defs/NumbersPerRequest"}
    return {
        "SampleColumns": {
            "type": "object",
            "description": "The requests of a run, a column for each field that is not at its default in all of them; "
            "a request without a spec.drafts has no speculation figures of its own, one without a form.blank was not looked at.",
            "properties": {"requests": {"type": "integer", "minimum": 0}}
            | {
                name: _column_schema(name, schema) | (several if name in _SEVERAL else {})
                for name, schema in fields.items()
            },
            "required": ["requests"],
        },
        "NumbersPerRequest": {
            "type": "object",
            "description": "All requests' numbers in a row: how many each has (-1: null), and the numbers.",
            "properties": {
                "counts": {"type": "array", "items": {"type": "integer", "minimum": _NONE}},
                "numbers": {
                    "type": "object",
                    "properties": {
                        "type": {"enum": ["|i1", "<i2", "<i4", "<i8", "<f8"], "description": "as numpy names it"},
                        "base64": {"type": "string", "contentEncoding": "base64"},
                    },
                    "required": ["type", "base64"],
                },
            },
            "required": ["counts", "numbers"],
        },
    }


def _column_schema(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    said = {"description": field["description"]} if "description" in field else {}
    if name in _SEVERAL:
        return said
    entry = {key: field[key] for key in ("type", "anyOf") if key in field}
    if name.partition(".")[0] in _NESTED:
        entry = {"anyOf": [entry, {"type": "null"}]}
    return {"type": "array", "items": entry} | said
