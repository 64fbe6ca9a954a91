"""The shape of a config file: which keys there are, their types and bounds, and the JSON Schema that follows.

What the shape cannot say - rules between keys, flags that would spoil the comparison, paths - is in ``config_rules``.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic resolves the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from pytest_specdec.core.load_spec import LOAD_FIELDS
from pytest_specdec.core.workload_options import COLUMNS, Column, MultiTurn, OnBadLine, WorkloadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

Placement = Literal["auto", "together", "swap", "sequential", "split"]
Allowance = Literal["synthetic", "lossy", "foreign-traffic"]
PLACEMENTS: tuple[str, ...] = get_args(Placement)

_SERVE = Annotated[Any, WithJsonSchema({"type": ["object", "array"], "items": {"type": "string"}})]
_COMMAND = Annotated[
    Any,
    WithJsonSchema(
        {"type": ["array", "string"], "items": {"type": "string", "minLength": 1}, "minItems": 1, "minLength": 1}
    ),
]
_ENV = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"type": ["string", "integer"]},
        }
    ),
]
_SPECULATIVE = Annotated[Any, WithJsonSchema({"type": "object", "minProperties": 1})]
_AtLeastOne = Annotated[int, Field(ge=1)]
_Positive = Annotated[float, Field(gt=0)]
_Rounds = Annotated[int, Field(ge=2)]
_Confidence = Annotated[float, Field(ge=0.5, lt=1)]


def _like_a_mark(name: str) -> AfterValidator:
    """What :data:`LOAD_FIELDS` accepts, as with marks: a value of a load, or a list of them, which is a sweep."""

    def check(value: Any) -> Any:
        wanted = None if value is None else LOAD_FIELDS[name](value)
        if wanted:
            raise ValueError(f"needs {wanted}")
        return value

    return AfterValidator(check)


def _one_or_several(one: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [one, {"type": "array", "items": one, "minItems": 2, "uniqueItems": True}]})


_Rate = Annotated[Any, _like_a_mark("request_rate"), _one_or_several({"type": "number", "exclusiveMinimum": 0})]
_Concurrency = Annotated[Any, _like_a_mark("concurrency"), _one_or_several({"type": "integer", "minimum": 1})]


class _Part(BaseModel):
    """A part of the file: no other keys, no coercion (true is not 1, "4" is not 4), no NaN, no change afterwards."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class _Conditions(_Part):
    """A part that sets conditions of a measurement."""

    def load_fields(self) -> dict[str, Any]:
        """What is set here of ``LoadSpec``'s fields, under their names."""
        return {name: value for name, value in self if value is not None and name != "allow"}


class WorkloadEntry(_Part):
    """A named workload of the config."""

    path: Annotated[
        Path,
        Field(description="A file or folder of prompts, relative to the config file, or a dataset: hf:owner/name."),
    ]
    weight: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None,
        Field(description="Share of this class in production; all weights sum to 1."),
    ] = None
    max_tokens: Annotated[_AtLeastOne | None, Field(description="Where a line of the file has none of its own.")] = None
    columns: Annotated[
        dict[Column, Annotated[str, Field(min_length=1)]],
        Field(description="What the file calls prompt, category, ..."),
    ] = {}
    sample: Annotated[_AtLeastOne | None, Field(description="So many prompts, drawn without replacement.")] = None
    by: Annotated[
        Literal["category"] | None, Field(description="Draw from each category in proportion to its prompts.")
    ] = None
    shares: Annotated[
        Annotated[dict[str, Annotated[float, Field(gt=0, le=1)]], Field(min_length=1)] | None,
        Field(description="Share of each category in the sample, where it is not that of the file; they sum to 1."),
    ] = None
    seed: Annotated[Annotated[int, Field(ge=0)] | None, Field(description="Of the sample. Default 0.")] = None
    classify: Annotated[
        bool, Field(description="Give prompts without a category one by rules: code, structured or chat.")
    ] = False
    multi_turn: Annotated[
        MultiTurn | None,
        Field(
            description="What is sent of a conversation: its first turn, its last, or each, with the answers recorded or the server's own."
        ),
    ] = None
    on_bad_line: Annotated[OnBadLine, Field(description="Whether a line that cannot be used is an error.")] = "error"
    split: Annotated[Annotated[str, Field(min_length=1)] | None, Field(description="Of a dataset hf:...")] = None
    subset: Annotated[Annotated[str, Field(min_length=1)] | None, Field(description="Of a dataset hf:...")] = None

    def options(self) -> WorkloadOptions:
        """How prompts are taken from the file."""
        stated = {name: value for name, value in self if name not in ("path", "weight") and value is not None}
        return WorkloadOptions(**stated)


class MeasureSettings(_Conditions):
    """How long to measure, and what may be measured."""

    rounds: Annotated[_Rounds | None, Field(description="Rounds before the first verdict. Default 4.")] = None
    max_rounds: Annotated[
        _Rounds | None, Field(description="Rounds after which an objective stays unsure. Default 12.")
    ] = None
    confidence: Annotated[_Confidence | None, Field(description="Of the intervals. Default 0.95.")] = None
    budget_s: Annotated[
        _Positive | None, Field(description="Seconds after which no further round starts. Default 900.")
    ] = None
    clients: Annotated[
        _AtLeastOne | Literal["auto"] | None,
        Field(description="Processes that send requests: a number, or auto. Default 1."),
    ] = None
    allow: Annotated[
        tuple[Allowance, ...],
        Field(
            description="Verification that does not keep the target's outputs, or others' requests on servers that run already, to be "
            "measured and labelled all the same."
        ),
    ] = ()


class LoadPoint(_Conditions):
    """A named load: what ``spec_load(load="NAME")`` stands for."""

    workload: Annotated[
        Annotated[str, Field(min_length=1)] | None, Field(description="Name or path of a workload.")
    ] = None
    request_rate: Annotated[_Rate, Field(description="Open loop: Poisson arrivals per second; a list is a sweep.")] = (
        None
    )
    concurrency: Annotated[_Concurrency, Field(description="Closed loop: requests in flight; a list is a sweep.")] = (
        None
    )
    num_requests: _AtLeastOne | None = None
    max_tokens: _AtLeastOne | None = None
    ignore_eos: bool | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[
        Annotated[int, Field(ge=-1), WithJsonSchema({"type": "integer", "anyOf": [{"const": -1}, {"minimum": 1}]})]
        | None,
        Field(description="-1 switches it off."),
    ] = None
    seed: Annotated[int, Field(ge=0)] | None = None
    rounds: _Rounds | None = None
    max_rounds: _Rounds | None = None
    budget_s: _Positive | None = None
    confidence: _Confidence | None = None
    max_failures: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, Field(description="Share of requests.")] = None
    clients: Annotated[_AtLeastOne | Literal["auto"] | None, Field(description="As in `measure`.")] = None


class Devices(_Part):
    """Which devices each server gets."""

    baseline: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    specdec: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class Envelope(_Part):
    """A config file that holds more than vLLM's speculative config."""

    model: Annotated[
        Annotated[str, Field(min_length=1)] | None, Field(description="The target. Default: --specdec-model.")
    ] = None
    speculative_config: Annotated[_SPECULATIVE, Field(description="What vLLM's --speculative-config takes; passed on.")]
    serve: Annotated[_SERVE, Field(description="vLLM's flags for both servers.")] = {}
    serve_specdec: Annotated[_SERVE, Field(description="Further flags of the speculating server only.")] = {}
    command: Annotated[_COMMAND, Field(description="What starts vLLM, without the flags that the plugin adds.")] = None
    env: Annotated[_ENV, Field(description="Environment variables of both servers.")] = {}
    placement: Annotated[Placement, Field(description="How the two servers share the devices.")] = "auto"
    workloads: dict[str, WorkloadEntry] = {}
    load: Annotated[dict[str, LoadPoint], Field(description="Named loads for spec_load(load=...).")] = {}
    measure: MeasureSettings = MeasureSettings()
    devices: Devices | None = None
    stop_command: Annotated[
        _COMMAND, Field(description="What stops a server that outlives its client, such as a container.")
    ] = None
    startup_timeout_s: Annotated[_Positive, Field(description="Hard limit for one server's start.")] = 1800


KEYS: tuple[str, ...] = tuple(Envelope.model_fields)
"""Every key at the top of an envelope."""
ENVELOPE_ONLY: frozenset[str] = frozenset(KEYS) - {"model"}
"""Keys that make a file an envelope; ``model`` is not one, because it is a key of both forms."""
OTHER_SPELLING = "speculative-config"
"""The command line's spelling of ``speculative_config``, accepted as a key as well."""


def known_keys(keys: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys that are possible at a key path of an envelope; empty where any key is."""
    known: Iterable[str] = ()
    match keys:
        case ():
            known = KEYS
        case ("measure",):
            known = MeasureSettings.model_fields
        case ("devices",):
            known = Devices.model_fields
        case ("workloads", _):
            known = WorkloadEntry.model_fields
        case ("workloads", _, "columns"):
            known = COLUMNS
        case ("load", _):
            known = LoadPoint.model_fields
    return tuple(known)


def config_json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a config file, for editors and for those who generate configs."""
    envelope = _plain(Envelope.model_json_schema())
    definitions = envelope.pop("$defs")
    envelope["properties"][OTHER_SPELLING] = envelope["properties"]["speculative_config"]
    envelope["required"] = [name for name in envelope["required"] if name != "speculative_config"]
    envelope["oneOf"] = [{"required": ["speculative_config"]}, {"required": [OTHER_SPELLING]}]
    for arm in ("baseline", "specdec"):
        definitions["Devices"]["properties"][arm]["uniqueItems"] = True
    definitions["LoadPoint"]["oneOf"] = [{"required": ["request_rate"]}, {"required": ["concurrency"]}]
    bare = {
        "title": "vLLM speculative config",
        "description": "What vLLM's --speculative-config takes. Here `model` is the draft; the target comes from --specdec-model.",
        "type": "object",
        "minProperties": 1,
        "not": {"required": ["model"], "maxProperties": 1},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-specdec config",
        "type": "object",
        "if": {"anyOf": [{"required": [name]} for name in (*KEYS, OTHER_SPELLING) if name != "model"]},
        "then": {"$ref": "#/$defs/Envelope"},
        "else": {"$ref": "#/$defs/SpeculativeConfig"},
        "$defs": definitions | {"Envelope": envelope, "SpeculativeConfig": bare},
    }


def _plain(schema: Any) -> Any:
    """Without the titles that repeat a key, and without null: a key that is not wanted is left out of the file."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _plain(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and (value is None or isinstance(value, dict)))
    }
    choices = plain.pop("anyOf", [])
    if {"type": "null"} in choices:
        choices = [choice for choice in choices if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**choices[0], **plain}
    return {**plain, "anyOf": choices} if choices else plain
