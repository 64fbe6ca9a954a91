"""How several workloads are named: in a mark, and as the text that everything behind it knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.load_spec import LoadSpec, load_problems, merge_load
from pytest_specdec.core.workload_mix import MixPart, mix_parts, mix_text, workload_problem

NAMES = st.lists(st.text("abc=./- ", min_size=1).map(str.strip).filter(bool), min_size=2, max_size=4, unique=True)


def test_a_list_is_equal_parts() -> None:
    assert mix_parts(mix_text(["code", "chat"])) == (MixPart("code", None), MixPart("chat", None))


def test_a_dict_is_shares() -> None:
    assert mix_parts(mix_text({"code": 0.6, "chat": 0.4})) == (MixPart("code", 0.6), MixPart("chat", 0.4))


def test_a_single_name_is_no_mix() -> None:
    assert mix_parts("code") == ()


def test_a_name_with_an_equals_sign_keeps_it() -> None:
    assert mix_parts("a=b + c") == (MixPart("a=b", None), MixPart("c", None))


@given(names=NAMES, data=st.data())
def test_shares_survive_the_text(names: list[str], data: st.DataObject) -> None:
    raw = [data.draw(st.floats(0.01, 1)) for _ in names]
    shares = {name: share / sum(raw) for name, share in zip(names, raw, strict=True)}
    parts = mix_parts(mix_text(shares))
    assert [part.name for part in parts] == names
    assert [part.share for part in parts] == pytest.approx(list(shares.values()))
    assert workload_problem(mix_text(shares)) is None


@pytest.mark.parametrize(
    "value",
    ["code", ["code", "chat"], ("code", "chat"), {"code": 0.6, "chat": 0.4}, "code + chat", "code=0.6 + chat=0.4"],
)
def test_what_may_be_given(value: object) -> None:
    assert load_problems({"workload": value}) == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("", "the name or path"),
        (["code"], "the name or path"),
        ({"code": 1.0}, "the name or path"),
        (["code", 3], "the name or path"),
        ({"code": "much", "chat": 0.4}, "the name or path"),
        ({"code": True, "chat": 0.4}, "the name or path"),
        ({"code": float("nan"), "chat": 0.4}, "the name or path"),
        (["code", "code"], "each workload once"),
        ({"code": 60, "chat": 40}, "these sum to 100"),
        ({"code": 1.0, "chat": 0.0}, "above 0"),
        ("code=0.6 + chat", "a share for every workload"),
        (None, "the name or path"),
    ],
)
def test_what_may_not_be_given(value: object, wanted: str) -> None:
    (problem,) = load_problems({"workload": value})
    assert wanted in problem


def test_conditions_hold_the_text() -> None:
    assert merge_load([{"workload": ["code", "chat"]}]).workload == "code + chat"
    assert merge_load([{"workload": {"code": 0.6, "chat": 0.4}}]).workload == "code=0.6 + chat=0.4"
    assert merge_load([]).workload == LoadSpec().workload
