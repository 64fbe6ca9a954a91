"""What vLLM changed by itself, from its log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.serving.fallbacks import changed_by_vllm
from pytest_specdec.serving.log_tables import fallbacks

ENGINE = "(EngineCore pid=7) INFO 07-01 12:00:01 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m', "


def stated(config: str) -> str:
    return (
        f"(APIServer pid=1) INFO 07-01 12:00:00 [api_utils.py:286] non-default args: {{'speculative_config': {config}}}"
    )


def in_force(method: str) -> str:
    return f"{ENGINE}speculative_config=SpeculativeConfig(method={method!r}, model='d', num_spec_tokens=2), dtype=x"


def test_another_method_than_the_stated_one_is_told() -> None:
    lines = [stated("{'method': 'mtp', 'model': 'd'}"), in_force("draft_model")]
    assert changed_by_vllm(lines) == ("speculation runs as draft_model, where the config says mtp",)


@pytest.mark.parametrize(
    ("config", "method"),
    [("{'method': 'mtp'}", "mtp"), ("{'method': 'deepseek_mtp'}", "mtp"), ("{'model': 'd'}", "eagle3")],
)
def test_the_stated_method_or_its_alias_or_a_guess_is_no_change(config: str, method: str) -> None:
    assert changed_by_vllm([stated(config), in_force(method)]) == ()


@pytest.mark.parametrize(("target", "draft", "told"), [(8192, 2048, True), (2048, 8192, False), (2048, 2048, False)])
def test_a_draft_that_ends_before_the_target_is_told(target: int, draft: int, *, told: bool) -> None:
    lengths = [f"(APIServer pid=1) INFO 07-01 12:00:00 [m.py:1] Using max model len {n}" for n in (target, draft)]
    sentences = changed_by_vllm([stated("{'method': 'draft_model', 'model': 'd'}"), *lengths])
    assert bool(sentences) is told
    assert not told or "drafting ends at position 2048" in sentences[0]


def test_what_several_processes_say_is_told_once() -> None:
    line = fallbacks()[0].sample
    assert len(changed_by_vllm([f"(APIServer pid=1) {line}", f"(EngineCore pid=7) {line}"])) == 1


def test_a_secret_in_a_change_is_masked() -> None:
    line = "Default vLLM sampling parameters have been overridden by x: `{'api_key': 'S3CR3T'}`."
    assert "S3CR3T" not in changed_by_vllm([line])[0]


@settings(deadline=None)
@given(st.lists(st.text() | st.sampled_from([entry.sample for entry in fallbacks()])))
def test_no_log_makes_it_fail(lines: list[str]) -> None:
    changed_by_vllm(lines)
