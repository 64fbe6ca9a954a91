"""The result file: everything a session measured and judged, as JSON that can be judged again without a GPU.

Floats come back to the last bit: reading the file gives the very numbers that the session judged, so judging again gives the
same verdicts. Keys that this version does not know are ignored; a larger ``schema_version`` means that known keys changed
their meaning, and is refused. Samples are held as columns, see :mod:`pytest_specdec.core.result_json`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.masked_text import masked_data
from pytest_specdec.core.report_section import ReportSection  # noqa: TC001 - pydantic resolves the annotations at run time
from pytest_specdec.core.result_json import (
    NOT_EDITED,
    SCHEMA_VERSION,
    damaged,
    not_finite,
    parsed,
    samples_taken_out,
    with_columns,
)
from pytest_specdec.core.sample_columns import columns_schema
from pytest_specdec.core.samples import Comparison  # noqa: TC001 - as above
from pytest_specdec.core.verdict import Verdict  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import TypeAdapter

GateOutcome = Literal["passed", "failed", "error", "skipped", "xfailed"]
Judgement = Literal["ok", "FAIL", "unsure", "ERROR", "unjudged"]

_PYDANTIC: dict[str, Any] = {"allow_inf_nan": False, "use_attribute_docstrings": True}


@dataclass(frozen=True)
class GateRecord:
    """One test with objectives: what was judged, and what pytest made of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _PYDANTIC

    nodeid: str
    config_id: str
    outcome: GateOutcome
    """pytest's outcome. ``error`` means that nothing could be measured; an unsure gate is failed or passed as
    ``--specdec-unsure`` says."""
    comparison: str | None = None
    """Key into the document's comparisons; None where nothing was measured. Of a sweep: the load that was missed first,
    and the lowest where none was."""
    verdicts: tuple[Verdict, ...] = ()
    """In the order of the merged marks; empty when the gate was not judged."""
    message: str = ""
    """The one-line message of a miss, or why nothing could be measured."""
    explanation: tuple[str, ...] = ()
    """Why the figures are what they are, one sentence each."""
    advice: str = ""
    """What to do about speculation here (enable, weigh, stop, make it dynamic), with the reason."""
    points: tuple[str, ...] = ()
    """Of a sweep: keys into the document's comparisons, the lowest load first, ``comparison`` among them. Else empty."""

    @property
    def judgement(self) -> Judgement:
        """The worst verdict, whatever pytest made of it: FAIL before unsure before ok."""
        if self.outcome == "error":
            return "ERROR"
        outcomes = {verdict.outcome for verdict in self.verdicts}
        if self.outcome == "skipped" or not outcomes:
            return "unjudged"
        if "FAIL" in outcomes:
            return "FAIL"
        return "unsure" if "unsure" in outcomes else "ok"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as pytest-xdist sends it between processes."""
        data: dict[str, Any] = _gate_adapter().dump_python(self, mode="json")
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GateRecord:
        """Undo :meth:`to_dict`.

        Raises:
            ValueError: The data is not what :meth:`to_dict` made.
        """
        return _gate_adapter().validate_json(_encoded(data))


@dataclass(frozen=True, kw_only=True)
class ResultDocument:
    """One pytest session."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _PYDANTIC

    schema_version: int = SCHEMA_VERSION
    created_unix_s: float
    """When the session started."""
    environment: dict[str, str]
    """Versions of ``pytest_specdec``, ``pytest`` and ``python``, the ``platform``, and pytest's ``argv``."""
    comparisons: dict[str, Comparison]
    """What was measured, by a key that names config and workload; several gates may share one."""
    gates: tuple[GateRecord, ...]
    """In the order in which they ran."""
    sections: tuple[ReportSection, ...] = ()
    """What other plugins added to the reports."""

    def to_json(self, secrets: Sequence[str] = ()) -> str:
        """One line of JSON, secrets masked.

        Args:
            secrets: Values that are known to be secret; those that can be told by their name or shape are masked in any case.

        Raises:
            ResultFileError: A number is NaN or infinite, which JSON has no word for and no measurement may produce.
        """
        slim = replace(self, comparisons={key: _without_samples(one) for key, one in self.comparisons.items()})
        data = masked_data(_document_adapter().dump_python(slim, mode="json"), secrets)
        with_columns(data, self.comparisons, secrets)
        try:
            return _encoded(data).decode()
        except ValueError:
            raise not_finite(_place_of_non_finite(data)) from None

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "") -> ResultDocument:
        """Read what :meth:`to_json` wrote, in this version or an older one.

        Args:
            text: The content of the file.
            where: Its path, for the error.

        Raises:
            ResultFileError: Not JSON, not a result file, damaged, or of a newer schema than this version reads.
        """
        from pydantic import ValidationError

        data = parsed(text, where)
        samples = samples_taken_out(data, where)
        try:
            # As text, since strict validation takes a list for a tuple only there.
            document = _document_adapter().validate_json(_encoded(data, allow_nan=True), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise damaged(f"{place}: {first['msg']}", where) from None
        comparisons = {
            key: replace(
                one,
                runs=tuple(
                    replace(run, samples=of)
                    for run, of in zip(one.runs, samples.get(f"comparisons.{key}", []), strict=True)
                ),
            )
            for key, one in document.comparisons.items()
        }
        document = replace(document, comparisons=comparisons)
        for gate in document.gates:
            named = (*([] if gate.comparison is None else [gate.comparison]), *gate.points)
            if missing := [key for key in named if key not in document.comparisons]:
                raise ResultFileError(
                    f"is damaged: {gate.nodeid} refers to the comparison {missing[0]!r}, which it does not hold",
                    where=where,
                    remedy=NOT_EDITED,
                )
        return document


def results_json_schema() -> dict[str, Any]:
    """The JSON Schema of a result file."""
    schema = _document_adapter().json_schema(mode="serialization")
    definitions = schema["$defs"]
    definitions["ArmRun"]["properties"]["samples"] = {"$ref": "#/$defs/SampleColumns"}
    definitions |= columns_schema(
        definitions.pop("RequestSample"), definitions.pop("RequestSpecStats"), definitions.pop("AnswerForm")
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "pytest-specdec results",
        "required": ["schema_version", *schema["required"]],
    }


def _encoded(data: Any, *, allow_nan: bool = False) -> bytes:
    # An argument that is no UTF-8 reaches Python as lone surrogates, which no JSON reader takes: they become "?".
    return json.dumps(data, allow_nan=allow_nan, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


@cache
def _gate_adapter() -> TypeAdapter[GateRecord]:
    from pydantic import TypeAdapter

    return TypeAdapter(GateRecord)


@cache
def _document_adapter() -> TypeAdapter[ResultDocument]:
    from pydantic import TypeAdapter

    return TypeAdapter(ResultDocument)


def _without_samples(comparison: Comparison) -> Comparison:
    return replace(comparison, runs=tuple(replace(run, samples=()) for run in comparison.runs))


def _place_of_non_finite(data: Any, path: str = "$") -> str | None:
    if isinstance(data, float):
        return None if math.isfinite(data) else path
    items: Mapping[str, Any] = {}
    if isinstance(data, dict):
        items = {f".{key}": value for key, value in data.items()}
    elif isinstance(data, list):
        items = {f"[{index}]": value for index, value in enumerate(data)}
    places = (_place_of_non_finite(value, path + key) for key, value in items.items())
    return next((place for place in places if place is not None), None)
