"""What real traffic brings, against real vLLM: conversations with a server's own answers, JSON Schemas and tools, K by batch size.

One pytest session measures it all; both configs share a target, and so one baseline.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import ArmRun, RequestSample
    from tests.e2e.live_project import Finished, LiveProject

SMOLLM2 = "../models/smollm2-135m-instruct"
EAGLE3 = {"method": "eagle3", "model": "../drafts/smollm2-135m-eagle3", "num_speculative_tokens": 3}
BY_LOAD = {**EAGLE3, "num_speculative_tokens_per_batch_size": [[1, 1, 3], [2, 64, 1]]}
TURNS = 3
CITIES = ("Oslo", "Rome", "Cairo")
FRUIT = ("A", "B", "C")

TESTS = f"""
import pytest


@pytest.mark.spec_load(load="pair", workload="talk", num_requests={TURNS * len(FRUIT)}, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_acceptance_length=1.0, configs="eagle3")
def test_conversations(spec_comparison):
    pass


@pytest.mark.spec_load(load="pair", workload="forms", num_requests={2 * len(CITIES)}, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_acceptance_length=1.0, configs="eagle3")
def test_forms(spec_comparison):
    pass


@pytest.mark.spec_load(concurrency=[1, 4], workload="code", num_requests=8, max_tokens=16, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_acceptance_length=1.0, configs="by-load")
def test_k_by_load(spec_comparison):
    pass
"""


def conversation(letter: str) -> dict[str, Any]:
    """Recorded answers are a single character, so that none can be taken for the server's own."""
    asked = [f"Name a fruit that starts with {letter}.", "Why do people like it?", "Say it in one sentence."]
    turns = [{"role": "user", "content": text} for text in asked]
    return {
        "messages": [
            turns[0],
            {"role": "assistant", "content": "?"},
            turns[1],
            {"role": "assistant", "content": "?"},
            turns[2],
        ]
    }


def schema_line(city: str) -> dict[str, Any]:
    """All values are of bounded length, so that an answer ends well before ``max_tokens``."""
    properties = {"city": {"enum": list(CITIES)}, "warm": {"type": "boolean"}, "season": {"enum": ["summer", "winter"]}}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {
        "category": "schema",
        "messages": [{"role": "user", "content": f"Is it warm in {city}? Answer as JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}},
        "max_tokens": 64,
    }


def tool_line(city: str) -> dict[str, Any]:
    properties = {"city": {"enum": list(CITIES)}, "days": {"enum": [1, 3, 7]}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "category": "tools",
        "messages": [{"role": "user", "content": f"What will the weather be like in {city} tomorrow?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": parameters}}],
        "tool_choice": "required",
        "max_tokens": 96,
    }


@pytest.fixture(scope="module")
def finished(make_project: Callable[[str], LiveProject]) -> Finished:
    """One session over both configs."""
    project = make_project("real-traffic")
    lines = {
        "talk": [conversation(letter) for letter in FRUIT],
        "forms": [*map(schema_line, CITIES), *map(tool_line, CITIES)],
    }
    for name, records in lines.items():
        path = project.folder / "configs" / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    flags: dict[str, Any] = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}
    workloads = {"talk": {"path": "talk.jsonl", "multi_turn": "own"}, "forms": {"path": "forms.jsonl"}}
    project.add_config("eagle3", SMOLLM2, EAGLE3, max_tokens=24, workloads=workloads, **flags)
    project.add_config("by-load", SMOLLM2, BY_LOAD, **flags)
    project.add_tests(TESTS)
    project.start()
    return project.finish(timeout_s=3000)


def both_arms(finished: Finished, part: str) -> list[ArmRun]:
    return [run for arm in ("baseline", "specdec") for run in finished.runs(part, arm)]


def test_all_is_measured(finished: Finished) -> None:
    assert finished.exit_code == 0, finished.output
    assert sorted(gate.outcome for gate in finished.document.gates if gate.verdicts) == ["passed"] * 3


def test_each_server_continues_with_its_own_answers(finished: Finished) -> None:
    """A later turn holds the whole answer to the one before it: the recorded one is a single token."""
    for run in both_arms(finished, "test_conversations"):
        assert [sample.error for sample in run.samples] == [None] * TURNS * len(FRUIT)
        turns: dict[int | None, list[RequestSample]] = {}
        for sample in sorted(run.samples, key=lambda sample: sample.index):
            turns.setdefault(sample.conversation, []).append(sample)
        assert [len(own) for own in turns.values()] == [TURNS] * len(FRUIT)
        for own in turns.values():
            for earlier, later in itertools.pairwise(own):
                assert later.sent_s >= earlier.token_times_s[-1]
                assert (later.prompt_tokens or 0) - (earlier.prompt_tokens or 0) > earlier.completion_tokens


def test_answers_have_the_form_that_was_asked_for(finished: Finished) -> None:
    for run in both_arms(finished, "test_forms"):
        assert [sample.error for sample in run.samples] == [None] * 2 * len(CITIES)
        forms = {name: [one.form for one in run.samples if one.category == name] for name in ("schema", "tools")}
        assert [form and form.as_asked for form in forms["schema"]] == [True] * len(CITIES)
        # The grammar of a call allows white space without end, so that one may be cut.
        whole = [form for form in forms["tools"] if form is not None and form.calls is not None]
        assert whole
        assert all(form.calls and form.as_asked for form in whole)


def test_the_batch_size_decides_how_many_tokens_are_drafted(finished: Finished) -> None:
    (gate,) = [gate for gate in finished.document.gates if "test_k_by_load[by-load]" in gate.nodeid]
    drafted = []
    for key in gate.points:
        counters = [run.counters for run in finished.document.comparisons[key].arm("specdec")]
        drafted.append(sum(one.draft_tokens or 0 for one in counters) / sum(one.drafts or 0 for one in counters))
    alone, four_at_a_time = drafted
    assert 2.5 < alone <= 3.0
    # Until the last request of a round is alone, a single token is drafted.
    assert 1.0 <= four_at_a_time < 2.0
