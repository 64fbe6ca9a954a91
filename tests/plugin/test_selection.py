"""Which servers start, for which tests, how often; and when a run without a verdict is red."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.exact_times import ON_SCHEDULE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


SUITE = """
    import pytest

    pytestmark = pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)

    @pytest.mark.spec_slo(tpot_gain=0.1)
    def test_gain(spec_comparison): pass

    @pytest.mark.spec_slo(min_acceptance_length=1.2)
    def test_acceptance(spec_comparison): pass

    def test_plain(): pass
"""


def results(pytester: pytest.Pytester) -> Any:
    return json.loads((pytester.path / ".specdec" / "results.json").read_text())


def test_collecting_starts_nothing(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("--co", "--specdec-config=fake.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_gain?fake?*"])
    assert not (pytester.path / ".specdec").exists()


def test_plain_tests_start_nothing_and_are_green(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("-k", "plain", "--specdec-config=fake.json")
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == 0
    assert not (pytester.path / ".specdec").exists()


def test_tests_with_equal_conditions_share_one_measurement(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("-m", "spec_slo", "--specdec-config=fake.json")
    result.assert_outcomes(passed=2, deselected=1)
    (comparison,) = results(pytester)["comparisons"].values()
    assert len(comparison["runs"]) == 6
    assert len(comparison["servers"]) == 2


def test_configs_share_one_baseline_and_give_each_test_their_id(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config(
        "four.json", speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    )
    write_config(
        "two.json", speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2}
    )
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("-v", "-m", "spec_slo", "--specdec-config=four.json", "--specdec-config=two.json")
    result.assert_outcomes(passed=4, deselected=1)
    result.stdout.fnmatch_lines(["*test_gain?four?*PASSED*", "*test_gain?two?*PASSED*"])
    comparisons = results(pytester)["comparisons"].values()
    logs = {(server["arm"], server["log"]) for comparison in comparisons for server in comparison["servers"]}
    assert len([arm for arm, _ in logs if arm == "baseline"]) == 1
    assert len([arm for arm, _ in logs if arm == "specdec"]) == 2


def test_without_a_config_gates_are_skipped_with_a_reason(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("-rs")
    result.assert_outcomes(skipped=2, passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["SKIPPED*--specdec-config*"])


def test_require_makes_a_run_without_a_config_red(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("--specdec-require")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no gate was judged, and --specdec-require*"])


def test_require_with_no_gates_selected_is_red(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    assert pytester.runpytest("-k", "plain", "--specdec-require", "--specdec-config=fake.json").ret == 1


def test_gates_that_were_all_skipped_make_the_run_red(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.skip
        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_gain(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*none was judged*"])


def test_several_xdist_workers_are_refused_per_test(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest_subprocess("-n", "2", "--specdec-config=fake.json")
    result.assert_outcomes(errors=2, passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*2 pytest-xdist workers would share the device*"])


def test_one_xdist_worker_measures_and_reports(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(test_suite=SUITE)
    pytester.makeconftest(ON_SCHEDULE)  # the worker is a process of its own
    result = pytester.runpytest_subprocess("-n", "1", "--specdec-config=fake.json")
    result.assert_outcomes(passed=3)
    assert len(results(pytester)["gates"]) == 2
    assert len(results(pytester)["comparisons"]) == 1


def test_an_unknown_load_point_is_an_error_that_lists_the_known_ones(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config(load={"low": {"request_rate": 5}, "high": {"concurrency": 8}})
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_load(load="hihg", workload="tiny")
        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_gain(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*did you mean 'high'*"])


def test_an_unknown_workload_is_an_error_that_lists_the_known_ones(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_load(workload="tinny")
        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_gain(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*did you mean 'tiny'*"])


def test_spec_servers_gives_two_servers_that_answer(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import json, urllib.request

        def ask(url):
            return urllib.request.urlopen(url, timeout=60).read().decode()

        def test_both_answer(spec_servers):
            assert json.loads(ask(spec_servers.baseline_url + "/v1/models"))["data"][0]["id"] == spec_servers.baseline_model
            assert "spec_decode" in ask(spec_servers.specdec_url + "/metrics")
            assert "spec_decode" not in ask(spec_servers.baseline_url + "/metrics")
        """
    )
    pytester.runpytest("--specdec-config=fake.json").assert_outcomes(passed=1)


def test_a_retry_adds_rounds(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.flaky(reruns=1)
        @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)
        @pytest.mark.spec_slo(tpot_gain=0.9)
        def test_gain(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    assert result.ret == 1
    (comparison,) = results(pytester)["comparisons"].values()
    assert len(comparison["runs"]) == 12


def test_a_gate_whose_objectives_are_for_other_configs_is_skipped_and_measures_nothing(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)
        @pytest.mark.spec_slo(tpot_gain=0.9, configs="fkae*")
        def test_typo(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no objective is for config 'fake': those of this test are for configs='fkae?'*"])
    result.stdout.fnmatch_lines(["ERROR: a config was given and gates were selected, but none was judged"])
    result.stdout.fnmatch_lines(
        ["  skipped: no objective is for config 'fake': those of this test are for configs='fkae?'"]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not (pytester.path / ".specdec" / "baseline").exists()


def test_gates_that_are_skipped_for_want_of_a_config_are_said_aloud(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_one(spec_comparison): pass

        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_two(spec_comparison): pass
        """
    )
    result = pytester.runpytest("-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["specdec: nothing was measured, for want of --specdec-config*"])


def test_the_refusal_of_a_run_without_a_judged_gate_says_at_most_three_reasons(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(5))
        @pytest.mark.spec_slo(tpot_gain=0.9)
        def test_later(spec_comparison, n): pass

        """
    )
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for number, item in enumerate(items):
                item.add_marker(pytest.mark.skip(reason=f"reason {number % 4}"))
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    said = [line for line in result.stdout.lines if line.startswith("  skipped: ")]
    assert said == [f"  skipped: reason {number}" for number in range(3)]
    result.stdout.fnmatch_lines(["  and 1 more reason"])
