"""The method and K in force are read from the server's own words."""

from __future__ import annotations

import pytest

from pytest_specdec.serving.attestation import Attested, attested

LINE = "(EngineCore pid=7) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m', speculative_config={}, tokenizer='m'"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("SpeculativeConfig(method='eagle3', model='a (b)', num_spec_tokens=3)", Attested("eagle3", 3)),
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)", Attested("ngram", 4)),
        ("None", Attested(None, None)),
    ],
)
def test_what_the_engine_says_is_read(words: str, expected: Attested) -> None:
    assert attested("INFO before\n" + LINE.replace("{}", words) + "\nINFO after") == expected


def test_the_last_start_counts() -> None:
    first = LINE.replace("{}", "SpeculativeConfig(method='mtp', model='m', num_spec_tokens=1)")
    second = LINE.replace("{}", "SpeculativeConfig(method='draft_model', model='m', num_spec_tokens=2)")
    assert attested(f"{first}\n{second}") == Attested("draft_model", 2)


def test_a_log_that_says_nothing_attests_nothing() -> None:
    assert attested("INFO non-default args: {'speculative_config': {'method': 'ngram'}}") is None
