"""The fixture that fuzzing uses: what it lets pass, what it finds, and what Hypothesis makes of it."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import hypothesis  # noqa: F401 - compiled parts of what it imports cannot be imported a second time by an inner pytest
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = {"tpot_ms": 0.1, "ttft_ms": 0.1, "answer_tokens": [20, 30]}
FUZZ = """
    from hypothesis import given, seed
    from pytest_specdec.fuzzing import fuzz_settings, specdec_prompts

    @seed(1)
    @fuzz_settings(max_examples=60)
    @given(prompt=specdec_prompts(max_characters=30))
    def test_fuzz(assert_lossless, prompt):
        assert_lossless(prompt, max_tokens=16)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, write_config: Callable[..., Any]) -> Callable[..., pytest.RunResult]:
    """Run a test with the fixture against fakes, both up at once."""

    def call(test: str, *, common: dict[str, Any] | None = None, **specdec: Any) -> pytest.RunResult:
        write_config(fake=QUICK | (common or {}) | {"specdec": specdec}, placement="together")
        pytester.makepyfile(test_fuzz=test)
        # Hypothesis inside a test that Hypothesis' own plugin watches does not shrink: so in a process of its own.
        start = pytester.runpytest_subprocess if test is FUZZ else pytester.runpytest
        return start("--specdec-config=fake.json", "-p", "no:cacheprovider")

    return call


def asking(arguments: str) -> str:
    return f"""
    def test_one(assert_lossless):
        assert_lossless({arguments})
    """


@pytest.mark.parametrize(
    "arguments",
    ["'Hello'", "'Hello', 16", "'Hello', concurrency=3", "[{'role': 'user', 'content': 'Hello'}]", "'the ' * 4000"],
)
def test_equal_answers_pass(run: Callable[..., pytest.RunResult], arguments: str) -> None:
    run(asking(arguments)).assert_outcomes(passed=1)


def test_near_ties_pass(run: Callable[..., pytest.RunResult]) -> None:
    run(asking("'Hello'"), near_ties=1.0).assert_outcomes(passed=1)


def test_a_smaller_margin_makes_a_divergence_of_a_tie(run: Callable[..., pytest.RunResult]) -> None:
    run(asking("'Hello', tie_margin=0.001"), near_ties=1.0).assert_outcomes(failed=1)


@pytest.mark.parametrize("knobs", [{"corrupt_output": 1.0}, {"swap_at_drafts": 1.0}])
def test_a_corrupted_answer_fails(run: Callable[..., pytest.RunResult], knobs: dict[str, Any]) -> None:
    result = run(asking("'Hello', max_tokens=20"), **knobs)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*LosslessViolation: speculation changes the answer: token * nats apart*"])


def test_a_loop_fails_where_the_baseline_ends(run: Callable[..., pytest.RunResult]) -> None:
    result = run(asking("'Hello', max_tokens=60"), loop={"after": 10})
    result.assert_outcomes(failed=1)


def test_corruption_beside_other_requests_needs_other_requests(run: Callable[..., pytest.RunResult]) -> None:
    knobs = {"corrupt_output": 1.0, "corrupt_only_concurrent": True}
    test = asking("'Hello'") + asking("'Hello', concurrency=4").replace("test_one", "test_beside")
    slow = {"ttft_ms": 1000}  # the four of them meet, however late one of them is
    run(test, common=slow, **knobs).assert_outcomes(passed=1, failed=1)


def test_a_prompt_that_one_server_alone_refuses_fails(
    pytester: pytest.Pytester, write_config: Callable[..., Any]
) -> None:
    write_config(fake=QUICK, placement="together", serve_specdec={"max_model_len": 128})
    pytester.makepyfile(test_fuzz=asking("'the ' * 200"))
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*one server refuses what the other answers: the baseline: answers; with speculation: HTTP 400*"]
    )


def test_hypothesis_shrinks_to_the_character_that_matters_and_prints_a_request(
    run: Callable[..., pytest.RunResult],
) -> None:
    result = run(FUZZ, corrupt_output=1.0, corrupt_only_with="\u2028")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert r"prompt (1 character): '\u2028'" in output
    command = re.search(r"with speculation:\s*\nE?\s*(curl .*)", output)
    assert command
    words = shlex.split(command[1])
    assert json.loads(words[words.index("-d") + 1])["prompt"] == "\u2028"


def test_fuzzing_clean_servers_finds_nothing(run: Callable[..., pytest.RunResult]) -> None:
    run(FUZZ, near_ties=0.5).assert_outcomes(passed=1)


def test_made_up_acceptance_is_an_error_before_any_launch(
    pytester: pytest.Pytester, write_config: Callable[..., Any]
) -> None:
    spec = {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.0,
    }
    write_config(speculative_config=spec, placement="together")
    pytester.makepyfile(test_fuzz=asking("'Hello'"))
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*assert_lossless: rejection_sample_method synthetic*"])
    assert "starting" not in result.stdout.str()
