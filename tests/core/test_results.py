"""Result documents: they come back as they were, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_specdec
from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.result_json import SCHEMA_VERSION
from pytest_specdec.core.results import GateOutcome, GateRecord, ResultDocument, results_json_schema
from pytest_specdec.core.samples import (
    ArmRun,
    ClientHealth,
    Comparison,
    DeviceReading,
    RequestSample,
    RequestSpecStats,
    ServerCounters,
    ServerRecord,
    WorkloadRecord,
)
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(codec="utf-8"))
whole = st.integers(-(2**53), 2**53)
samples = st.builds(
    RequestSample,
    index=whole,
    prompt=whole,
    category=st.none() | texts,
    due_s=st.none() | finite,
    sent_s=finite,
    token_times_s=st.lists(finite).map(tuple),
    chunk_tokens=st.none() | st.lists(whole).map(tuple),
    token_ids=st.none() | st.lists(whole).map(tuple),
    spec=st.none() | st.builds(RequestSpecStats, whole, whole, whole, st.none() | st.lists(whole).map(tuple)),
    error=st.none() | texts,
)
verdicts = st.builds(
    Verdict,
    requirement=st.builds(Requirement, texts, finite, st.none() | texts, st.lists(st.tuples(texts, finite)).map(tuple)),
    estimate=st.builds(Estimate, finite, st.none() | finite, st.none() | finite, st.none() | finite, whole, texts),
    outcome=st.sampled_from(["ok", "FAIL", "unsure"]),
    direction=st.sampled_from(["higher", "lower"]),
    unit=st.sampled_from(["fraction", "ms", "tokens"]),
    advice=texts,
)


def comparison(*runs: ArmRun) -> Comparison:
    return Comparison(
        config_id="eagle3",
        method=None,
        num_speculative_tokens=3,
        load=LoadSpec(request_rate=0.5, concurrency=None),
        workload=WorkloadRecord("chat", "chat.jsonl", "00", 32, {"code": 0.6}),
        servers=(ServerRecord("specdec", ("vllm", "serve"), {"VLLM_X": "1"}, "m", None, "specdec.log", 31.5),),
        runs=runs,
    )


def run_of(*requests: RequestSample) -> ArmRun:
    return ArmRun(
        arm="baseline",
        round=0,
        order=1,
        started_unix_s=1.7e9,
        duration_s=2.5,
        samples=requests,
        counters=ServerCounters(drafts=3, accepted_per_position=(2, 1), tpot_sum_s=0.1),
        client=ClientHealth(0.01, 0.002, 0.3),
        devices=(DeviceReading(0, "NVIDIA H200", throttle_reasons=("power",)),),
    )


def document(
    *gates: GateRecord, comparisons: dict[str, Comparison] | None = None, environment: dict[str, str] | None = None
) -> ResultDocument:
    return ResultDocument(
        created_unix_s=1.8e9, environment=environment or {}, comparisons=comparisons or {}, gates=tuple(gates)
    )


def changed(text: str, **changes: Any) -> str:
    return json.dumps(json.loads(text) | changes)


@settings(deadline=None)
@given(st.lists(samples, max_size=3), st.lists(verdicts, max_size=2), texts)
def test_document_comes_back_exactly(requests: list[RequestSample], judged: list[Verdict], key: str) -> None:
    gate = GateRecord("t.py::test_x[a]", "a", "failed", key, tuple(judged), key, (key,), key)
    original = document(gate, comparisons={key: comparison(run_of(*requests))}, environment={"argv": key})
    assert ResultDocument.from_json(original.to_json()) == original


@settings(deadline=None)
@given(st.lists(verdicts, max_size=2), texts)
def test_gate_survives_the_way_between_processes(judged: list[Verdict], message: str) -> None:
    gate = GateRecord("t.py::test_x[a]", "a", "failed", None, tuple(judged), message)
    assert GateRecord.from_dict(gate.to_dict()) == gate


def test_gate_as_a_dict_is_plain_data() -> None:
    gate = GateRecord("t.py::test_x", "a", "passed", explanation=("because",))
    assert gate.to_dict()["explanation"] == ["because"]


def test_document_is_one_line() -> None:
    assert "\n" not in document(GateRecord("t", "a", "error", message="line\nbreak")).to_json()


def test_argument_that_is_no_text_does_not_lose_the_session() -> None:
    read = ResultDocument.from_json(document(environment={"argv": "caf\udce9.py"}).to_json())
    assert read.environment == {"argv": "caf?.py"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_number_that_is_not_finite_is_refused_with_its_place(value: float) -> None:
    sample = RequestSample(0, 0, None, None, 0.0, token_times_s=(0.5, value))
    with pytest.raises(ResultFileError, match=r"at \$\.comparisons\.a\.runs\[0\]\.samples\.token_times_s\[1\]"):
        document(comparisons={"a": comparison(run_of(sample))}).to_json()


@pytest.mark.parametrize("value", ["NaN", "1e999"])
def test_file_with_a_number_that_is_not_finite_is_refused(value: str) -> None:
    text = document().to_json().replace("1800000000.0", value)
    with pytest.raises(ResultFileError, match="created_unix_s"):
        ResultDocument.from_json(text)


def test_newer_schema_is_refused_and_names_both_versions() -> None:
    text = changed(document().to_json(), schema_version=SCHEMA_VERSION + 1, comparisons="of another shape")
    with pytest.raises(ResultFileError, match="has schema version 3, but this pytest-specdec reads versions up to 2"):
        ResultDocument.from_json(text)


def test_key_of_a_later_release_is_ignored() -> None:
    gate = GateRecord("t.py::test_x", "a", "passed").to_dict() | {"mood": "good"}
    text = changed(document().to_json(), weather="fine", gates=[gate])
    assert ResultDocument.from_json(text) == document(GateRecord("t.py::test_x", "a", "passed"))


def test_optional_key_of_a_later_release_may_be_missing() -> None:
    text = changed(document().to_json(), gates=[{"nodeid": "t", "config_id": "a", "outcome": "passed"}])
    assert ResultDocument.from_json(text).gates[0].verdicts == ()


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1', "\x00", "[" * 100_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ResultFileError, match=r"r\.json: is not JSON"):
        ResultDocument.from_json(text, where="r.json")


@pytest.mark.parametrize(
    "text", ["null", "[]", "{}", '{"schema_version": "1"}', '{"schema_version": true}', '{"schema_version": 0}']
)
def test_other_json_is_not_taken_for_a_result(text: str) -> None:
    with pytest.raises(ResultFileError, match="is not a result of pytest-specdec"):
        ResultDocument.from_json(text)


def test_damaged_file_names_the_place() -> None:
    gate = GateRecord("t.py::test_x", "a", "passed").to_dict() | {"outcome": "green"}
    with pytest.raises(ResultFileError, match=r"is damaged at gates\.0\.outcome"):
        ResultDocument.from_json(changed(document().to_json(), gates=[gate]))


def test_number_written_as_text_is_damage() -> None:
    with pytest.raises(ResultFileError, match="is damaged at created_unix_s"):
        ResultDocument.from_json(changed(document().to_json(), created_unix_s="1800000000"))


def test_gate_without_its_comparison_is_damage() -> None:
    text = document(GateRecord("t.py::test_x", "a", "passed", comparison="gone")).to_json()
    with pytest.raises(ResultFileError, match="refers to the comparison 'gone'"):
        ResultDocument.from_json(text)


SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


def test_file_of_the_first_schema_can_still_be_read() -> None:
    saved = ResultDocument.from_json(SAVED.read_bytes())
    assert (saved.gates[0].judgement, saved.comparisons["eagle3/chat"].rounds) == ("FAIL", 4)


def test_every_sample_of_an_older_file_is_in_the_newer_one() -> None:
    older = json.loads(SAVED.read_bytes())
    newer = ResultDocument.from_json(ResultDocument.from_json(SAVED.read_bytes()).to_json())
    rows = [sample for run in older["comparisons"]["eagle3/chat"]["runs"] for sample in run["samples"]]
    read = [sample for run in newer.comparisons["eagle3/chat"].runs for sample in run.samples]
    assert newer.schema_version == SCHEMA_VERSION
    assert [(row["index"], tuple(row["token_times_s"]), row["completion_tokens"]) for row in rows] == [
        (sample.index, sample.token_times_s, sample.completion_tokens) for sample in read
    ]


def test_damaged_sample_of_an_older_file_is_named() -> None:
    older = json.loads(SAVED.read_bytes())
    older["comparisons"]["eagle3/chat"]["runs"][1]["samples"][2]["sent_s"] = "soon"
    with pytest.raises(ResultFileError, match=r"is damaged at comparisons\.eagle3/chat\.runs\.1\.samples\.2\.sent_s"):
        ResultDocument.from_json(json.dumps(older))


def test_verdicts_can_be_reached_again_from_a_file() -> None:
    saved = ResultDocument.from_json(SAVED.read_bytes())
    gate = saved.gates[0]
    again = judge(saved.comparisons["eagle3/chat"], [verdict.requirement for verdict in gate.verdicts])
    assert [one.outcome for one in again] == [one.outcome for one in gate.verdicts]
    assert [one.estimate.value for one in again] == pytest.approx([one.estimate.value for one in gate.verdicts])


def verdict(outcome: str) -> Verdict:
    return Verdict(Requirement("tpot_gain", 0.3), Estimate(0.2), outcome, "higher", "fraction")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "judged", "judgement"),
    [
        ("passed", ["ok", "ok"], "ok"),
        ("failed", ["ok", "unsure", "FAIL"], "FAIL"),
        ("failed", ["ok", "unsure"], "unsure"),
        ("passed", ["unsure"], "unsure"),
        ("xfailed", ["FAIL"], "FAIL"),
        ("error", [], "ERROR"),
        ("failed", [], "unjudged"),
        ("skipped", ["ok"], "unjudged"),
    ],
)
def test_judgement_is_the_worst_verdict(outcome: GateOutcome, judged: list[str], judgement: str) -> None:
    assert GateRecord("t", "a", outcome, verdicts=tuple(verdict(one) for one in judged)).judgement == judgement


def without_words(schema: Any) -> Any:
    """A schema without titles and descriptions, which differ between releases of pydantic."""
    if isinstance(schema, list):
        return [without_words(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_words(part)
        for key, part in schema.items()
        if not (key in {"title", "description"} and isinstance(part, str))
    }


def test_published_schema_is_up_to_date() -> None:
    published = Path(pytest_specdec.__file__).parent / "schema" / "results.schema.json"
    assert without_words(json.loads(published.read_text(encoding="utf-8"))) == without_words(results_json_schema()), (
        "run: pytest-specdec schema results > pytest_specdec/schema/results.schema.json"
    )


def test_schema_accepts_what_is_written() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    sample = RequestSample(0, 0, None, None, 0.0, token_times_s=(0.5,), spec=RequestSpecStats(1, 3, 2, (2,)))
    sample = dataclasses.replace(sample, form=AnswerForm(0.5, blank=False, damaged=False))
    gate = GateRecord("t", "a", "failed", "a", (verdict("FAIL"),))
    text = document(gate, comparisons={"a": comparison(run_of(sample))}).to_json()
    jsonschema.Draft202012Validator(results_json_schema()).validate(json.loads(text))


def test_schema_refuses_a_document_without_its_version() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    data = json.loads(document().to_json())
    del data["schema_version"]
    assert not jsonschema.Draft202012Validator(results_json_schema()).is_valid(data)


def test_every_field_of_a_sample_is_in_the_schema() -> None:
    properties = results_json_schema()["$defs"]["SampleColumns"]["properties"]
    sample = {field.name for field in dataclasses.fields(RequestSample)} - {"spec", "form"}
    forms = {f"form.{field.name}" for field in dataclasses.fields(AnswerForm)}
    stats = {f"spec.{field.name}" for field in dataclasses.fields(RequestSpecStats)}
    assert set(properties) == {"requests"} | sample | stats | forms


def test_secret_in_a_failed_request_is_masked_in_the_file() -> None:
    failed = RequestSample(0, 0, None, None, 0.0, error="HTTP 401: Authorization: Bearer abcdef123456")
    text = document(comparisons={"a": comparison(run_of(failed))}).to_json(["abcdef123456"])
    assert "abcdef123456" not in text
