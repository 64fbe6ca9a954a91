"""Settings in force, from the logs of two real servers (vLLM 0.32.0 on a CPU) and from single lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.server_facts import differences
from pytest_specdec.serving.log_facts import read_facts, stated_speculation

DATA = Path(__file__).parents[1] / "data" / "logs_up"


def lines_of(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_the_settings_of_a_real_server_are_read() -> None:
    facts = read_facts(lines_of("eagle3"))
    assert facts is not None
    assert facts.arguments["max_model_len"] == "2048"
    assert facts.effective == {
        "tokens scheduled per step": "2048",
        "model runner": "V1",
        "dtype": "bfloat16",
        "max_model_len": "2048",
        "tensor parallel size": "1",
        "pipeline parallel size": "1",
        "data parallel size": "1",
        "quantization": "None",
        "enforce_eager": "True",
        "KV cache dtype": "auto",
        "device": "cpu",
        "prefix caching": "True",
        "chunked prefill": "True",
        "compilation mode": "NONE",
        "cudagraph mode": "NONE",
        "KV cache tokens": "45,056",
        "maximum concurrency": "22.00",
    }


def test_two_real_servers_differ_in_what_the_draft_takes() -> None:
    baseline, specdec = read_facts(lines_of("baseline")), read_facts(lines_of("eagle3"))
    assert baseline is not None
    assert specdec is not None
    assert differences(baseline, specdec) == (
        "KV cache tokens 46,592 against 45,056 (-3.3 %)",
        "maximum concurrency 22.75 against 22.00 (-3.3 %)",
    )


def test_the_speculative_config_is_read() -> None:
    assert stated_speculation(lines_of("eagle3"))["method"] == "eagle3"
    assert stated_speculation(lines_of("baseline")) == {}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("INFO [cuda.py:1] Using FLASH_ATTN attention backend out of potential backends: ['A'].", "attention backend", "FLASH_ATTN"),
        ("INFO [core.py:1] # GPU blocks: 1234, # CPU blocks: 0", "KV blocks", "1234"),
        ("INFO [s.py:1] Chunked prefill is enabled with max_num_batched_tokens=8192.", "tokens scheduled per step", "8192"),
        ("WARNING [c.py:1] X is not supported; setting cudagraph_mode=PIECEWISE", "cudagraph mode", "PIECEWISE"),
        ("INFO [w.py:1] Using V2 Model Runner", "model runner", "V2"),
    ],
)  # fmt: skip
def test_a_setting_is_read_from_its_line(line: str, name: str, value: str) -> None:
    facts = read_facts([line])
    assert facts is not None
    assert facts.effective == {name: value}


def test_the_last_word_on_a_setting_counts() -> None:
    facts = read_facts(
        ["X; setting cudagraph_mode=FULL_AND_PIECEWISE", "Y; setting cudagraph_mode=PIECEWISE because of it"]
    )
    assert facts is not None
    assert facts.effective["cudagraph mode"] == "PIECEWISE"


def test_an_api_key_among_the_arguments_is_masked() -> None:
    facts = read_facts(["non-default args: {'api_key': ['S3CR3T'], 'model': 'https://me:S3CR3T@host/m'}"])
    assert facts is not None
    assert facts.arguments == {"api_key": "***", "model": "https://***@host/m"}


def test_arguments_that_only_vllm_could_build_again_are_left_out() -> None:
    assert read_facts(["non-default args: {'x': <Mode.A: 1>}"]) is None


def test_a_log_that_says_nothing_gives_none() -> None:
    assert read_facts(["INFO fine"]) is None


@settings(deadline=None)
@given(st.lists(st.text() | st.text().map("non-default args: {}".__add__) | st.sampled_from(lines_of("eagle3"))))
def test_no_log_makes_it_fail(lines: list[str]) -> None:
    read_facts(lines)
    stated_speculation(lines)
