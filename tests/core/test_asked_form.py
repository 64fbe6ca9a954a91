"""What a request asks of its answer's form, and whether an answer has it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.core.answer_form import AnswerForm, form_of
from pytest_specdec.core.asked_form import AskedForm, ToolCall, asked_form, has_form

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("weather", "clock")]
BOTH = frozenset({"weather", "clock"})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, AskedForm()),
        ({"response_format": {"type": "text"}}, AskedForm()),
        ({"response_format": {"type": "json_object"}}, AskedForm(json=True)),
        ({"response_format": SCHEMA}, AskedForm(json=True)),
        ({"structured_outputs": {"json": {"type": "object"}}}, AskedForm(json=True)),
        ({"structured_outputs": {"json_object": True}}, AskedForm(json=True)),
        ({"structured_outputs": {"regex": "a+"}}, AskedForm()),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, AskedForm(choices=("yes", "no"))),
        ({"tools": TOOLS}, AskedForm(tools=BOTH)),
        ({"tools": TOOLS, "tool_choice": None}, AskedForm(tools=BOTH)),
        ({"tools": TOOLS, "tool_choice": "none"}, AskedForm()),
        ({"tools": TOOLS, "tool_choice": "required"}, AskedForm(tools=BOTH, must_call=True)),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "clock"}}},
            AskedForm(tools=BOTH, must_call=True),
        ),
    ],
)
def test_what_is_asked_is_read_from_the_body(asked: dict[str, Any], expected: AskedForm) -> None:
    assert asked_form(asked) == expected


def test_a_grammar_is_at_work_only_where_a_form_is_enforced() -> None:
    assert [form.enforced for form in (AskedForm(), AskedForm(tools=BOTH))] == [False, False]
    enforced = (AskedForm(json=True), AskedForm(choices=("a",)), AskedForm(tools=BOTH, must_call=True))
    assert all(form.enforced for form in enforced)


@pytest.mark.parametrize(
    ("form", "content", "calls", "expected"),
    [
        (AskedForm(), "{", [], None),
        (AskedForm(json=True), ' {"a": 1}\n', [], True),
        (AskedForm(json=True), "3", [], True),
        (AskedForm(json=True), '{"a": 1', [], False),
        (AskedForm(json=True), '```json\n{"a": 1}\n```', [], False),
        (AskedForm(json=True), "", [], False),
        (AskedForm(choices=("yes", "no")), "no", [], True),
        (AskedForm(choices=("yes", "no")), "non", [], False),
        (AskedForm(tools=BOTH), "It rains.", [], None),
        (AskedForm(tools=BOTH, must_call=True), "It rains.", [], False),
        (AskedForm(tools=BOTH), "", [ToolCall("clock", "{}"), ToolCall("weather", '{"city": "Oslo"}')], True),
        (AskedForm(tools=BOTH), "", [ToolCall("clock", "{}"), ToolCall("weather", '{"city": ')], False),
        (AskedForm(tools=BOTH), "", [ToolCall("cloc", "{}")], False),
    ],
)
def test_an_answer_has_the_form_or_not(
    form: AskedForm, content: str, calls: list[ToolCall], *, expected: bool | None
) -> None:
    assert has_form(form, content, calls) is expected


def test_what_was_cut_tells_nothing() -> None:
    form = form_of('{"a', [1], cut=True, asked=AskedForm(json=True, tools=BOTH), content='{"a')
    assert (form.as_asked, form.parses, form.calls) == (None, None, None)


def test_an_answer_is_not_held_against_two_rules() -> None:
    form = form_of('{"a', [1], asked=AskedForm(json=True), content='{"a')
    assert (form.as_asked, form.parses) == (False, None)


def test_several_calls_are_no_broken_json_and_a_call_without_arguments_is_not_blank() -> None:
    calls = [ToolCall("clock", "{}"), ToolCall("clock", "{}")]
    assert form_of("{}{}", [1], asked=AskedForm(tools=BOTH), calls=calls) == AnswerForm(
        None, blank=False, damaged=False, parses=None, as_asked=True, calls=True
    )
    assert not form_of("", [1], asked=AskedForm(tools=BOTH), calls=[ToolCall("clock", "")]).blank


def test_whether_a_tool_is_called_is_told_only_where_one_is_offered() -> None:
    assert form_of("x", [1]).calls is None
    assert form_of("x", [1], asked=AskedForm(tools=BOTH)).calls is False
