"""What a gate ends as: passed, FAILED, ERROR, skipped, and what the user reads then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_a_met_objective_passes(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1, min_acceptance_length=1.5")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_progress_names_every_phase(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.stdout.fnmatch_lines(
        [
            "specdec: fake: starting the baseline server (fake-model)",
            "specdec: fake: starting the specdec server (fake-model)",
            "specdec: fake: warming up baseline (tiny at concurrency 4)",
            "specdec: fake: tiny at concurrency 4, round 1 of 3, baseline",
            "specdec: fake: tiny at concurrency 4, round 2 of 3, specdec (TPOT gain * % so far, about * s of rounds left)",
            "specdec: fake: tiny at concurrency 4, round 3 of 3, specdec (TPOT gain * % so far, about * s of rounds left)",
        ]
    )
    assert "\x1b" not in result.stdout.str()


def test_a_missed_objective_fails_with_one_line_and_a_table(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.9, min_acceptance_length=1.5")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*1 of 2 objectives missed: tpot_gain * % < 90 %*",
            "*- speculative decoding -*",
            "*objective*required*measured*interval*",
            "*FAIL*tpot_gain*>= 90.0 %*",
            "*ok*min_acceptance_length*>= 1.50*",
            "*baseline*TPOT*",
            "*specdec*TPOT*",
            "*again*pytest 'test_gate.py::test_gate?fake?' --specdec-config=fake.json*",
            "FAILED test_gate.py::test_gate?fake? - SloViolation: 1 of 2 objectives missed*",
        ]
    )


def test_the_table_is_printed_once_on_ci(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", "true")
    write_config()
    write_gate("tpot_gain=0.9")
    result = pytester.runpytest("--specdec-config=fake.json")
    assert result.stdout.str().count(">= 90.0 %") == 1


def test_a_body_that_fails_shows_its_own_error_and_the_table(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1", body="assert spec_comparison.comparison.rounds == 99")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 3 == 99*", "*ok*tpot_gain*>= 10.0 %*"])


def test_the_body_can_read_every_figure(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate(
        "tpot_gain=0.1",
        body="assert 1 < spec_comparison.estimate('min_acceptance_length').value <= 4; "
        "assert spec_comparison.verdicts[0].outcome == 'ok'; assert spec_comparison.load.num_requests == 8",
    )
    pytester.runpytest("--specdec-config=fake.json").assert_outcomes(passed=1)


def test_a_skip_in_the_body_leaves_the_gate_unjudged_and_the_run_red(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.9", body="pytest.skip('not today')")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(skipped=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*none was judged*"])


def test_a_server_that_does_not_start_is_an_error_not_a_failure(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"specdec": {"exit_at_start": {"code": 1, "message": "ValueError: no such draft"}}})
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "the baseline came up, speculation did not: the specdec server exited with code 1*ValueError: no such draft",
            "ERROR *CouldNotMeasure*",
        ]
    )


def test_a_server_that_dies_while_measuring_is_an_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"specdec": {"die_after_requests": 20}})
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["ERROR *CouldNotMeasure*"])


def test_failed_requests_are_an_error_that_quotes_the_first(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"specdec": {"http_error": {"status": 500, "every": 3}}})
    write_gate("tpot_gain=-0.9")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*HTTP 500*"])


def test_a_server_that_does_not_speculate_is_an_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(
        fake={"no_drafts": True}, speculative_config={"method": "eagle3", "model": "head", "num_speculative_tokens": 3}
    )
    write_gate("tpot_gain=-0.9")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)


def test_a_baseline_that_speculates_is_an_error(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"speculates_on_baseline": True})
    write_gate("tpot_gain=-0.9")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)


def test_a_strict_xfail_documents_a_known_miss(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.xfail(strict=True, reason="slower until the next release")
        @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)
        @pytest.mark.spec_slo(tpot_gain=0.9)
        def test_gate(spec_comparison):
            pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(xfailed=1)
    assert result.ret == 0


def test_results_hold_what_is_needed_to_judge_again(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config()
    write_gate("tpot_gain=0.1")
    pytester.runpytest("--specdec-config=fake.json")
    document = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    assert document["schema_version"] == 2
    (comparison,) = document["comparisons"].values()
    assert len(comparison["runs"]) == 6
    assert [(run["arm"], run["round"], run["order"]) for run in comparison["runs"]] == [
        ("baseline", 0, 0),
        ("specdec", 0, 1),
        ("specdec", 1, 0),
        ("baseline", 1, 1),
        ("baseline", 2, 0),
        ("specdec", 2, 1),
    ]
    assert all(set(run["samples"]["completion_tokens"]) == {24} for run in comparison["runs"])
    assert document["gates"][0]["outcome"] == "passed"
