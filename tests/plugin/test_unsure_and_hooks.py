"""What an unsure objective does, and what other plugins get to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NOISY = {"jitter": 0.6, "request_jitter": 0.6}
SYNTHETIC = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_length": 2.5,
}


def test_an_unsure_objective_gets_more_rounds_and_then_fails(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake=NOISY, measure={"rounds": 2, "max_rounds": 4})
    write_gate("tpot_gain=0.63")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*unsure*tpot_gain*", "*4 rounds of 8 requests*"])


def test_unsure_can_pass_for_a_soft_start(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake=NOISY, measure={"rounds": 2, "max_rounds": 2})
    write_gate("tpot_gain=0.63")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-unsure=pass")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["unsure (passed)*test_gate*"])


def test_synthetic_acceptance_is_refused_before_any_launch(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(speculative_config=SYNTHETIC)
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*acceptance is made up*", "*--specdec-allow=synthetic*"])
    assert not list((pytester.path / ".specdec").glob("*/*.log"))


def test_allowed_synthetic_acceptance_is_labelled_and_never_satisfies_an_acceptance_objective(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(speculative_config=SYNTHETIC)
    write_gate("tpot_gain=0.9", name="test_time")
    write_gate("min_acceptance_length=1.5", name="test_acceptance")
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-allow=synthetic")
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*note: synthetic verification: acceptance is made up; only times are judged*"])


def test_another_method_than_the_config_states_is_an_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(
        fake={"wrong_method": "draft_model"},
        speculative_config={"method": "mtp", "num_speculative_tokens": 3},
    )
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*speculates with draft_model, 3 tokens; the config states mtp, 3 tokens*"])


def test_hooks_see_commands_measurements_and_verdicts(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1")
    pytester.makeconftest(
        """
        def pytest_specdec_server_command(arm, argv):
            return ("env", "SEEN=1", *argv)

        def pytest_specdec_measured(comparison):
            print("measured", comparison.config_id, comparison.rounds)

        def pytest_specdec_verdict(item, verdicts):
            print("verdict", item.name, verdicts[0].outcome)
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json", "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*measured fake 3*", "*verdict test_gate?fake? ok*"])
    document = (pytester.path / ".specdec" / "results.json").read_text()
    assert '["env","SEEN=1"' in document


def test_junit_carries_figures_and_the_failure(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.9")
    pytester.runpytest("--specdec-config=fake.json", "--junitxml=junit.xml", "-o", "junit_family=xunit2")
    text = (pytester.path / "junit.xml").read_text()
    assert 'name="specdec.tpot_gain.verdict" value="FAIL"' in text
    assert "1 of 1 objective missed: tpot_gain" in text
    assert "a speculative step costs" in text
