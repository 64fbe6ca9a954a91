"""The acceptance procedure that the package brings: five steps, settings, and the advice at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytest_specdec
from tests.exact_times import ON_SCHEDULE

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = ("--pyargs", "pytest_specdec.acceptance")
SMALL = ("requests=4", "max_tokens=16", "rounds=3", "workloads=tiny", "low=1", "high=4")


def settings(*given: str) -> list[str]:
    return [f"--specdec-acceptance={one}" for one in (*SMALL, *given)]


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # A process of its own: the package's conftest is a module that an earlier run would have left behind.
    pytester.makeconftest(ON_SCHEDULE)
    return pytester.runpytest_subprocess(*SUITE, "-rs", *arguments)


def test_all_steps_are_in_the_report(pytester: pytest.Pytester, write_config: Callable[..., Path]) -> None:
    write_config(fake={"step_ratio": 1.0, "acceptance": [0.9, 0.9, 0.9]}, measure=None)
    result = run(pytester, "--specdec-config=fake.json", *settings())
    result.assert_outcomes(passed=5, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*acceptance procedure*",
            "test_1_scenario[[]fake[]]",
            "  goal: none set, so both low and high load count*",
            "  low load: concurrency 1, 4 requests a round (as set)",
            "  workload tiny: 24 prompts (*",
            "test_2_proposer[[]fake[]]",
            "  * % of the words of 8 answers (tiny) could be looked up: *",
            "  method ngram*",
            "test_3_acceptance[[]*tiny*",
            "  tiny: ok: min_acceptance_length *, required 1.50",
            "test_4_load[[]*low*",
            "  low load: ok: tpot_gain *, required 30.0 %",
            "test_4_load[[]*high*",
            "  high load: ok: throughput_gain *",
            "*speculative decoding*",
            "advice for fake, tiny: enable: TPOT gain *",
        ]
    )


def test_low_load_is_measured_once_for_acceptance_and_latency(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config(measure=None)
    run(pytester, "--specdec-config=fake.json", *settings("acceptance_length=1.1", "tpot_gain=-1"))
    from pytest_specdec.reporting.result_file import read_result

    document = read_result(pytester.path / ".specdec" / "results.json")
    assert sorted(one.load.concurrency or 0 for one in document.comparisons.values()) == [1, 4]


def test_a_threshold_that_is_set_is_judged_and_advised_by(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config(measure=None)
    result = run(pytester, "--specdec-config=fake.json", "-k", "test_3", *settings("acceptance_length=3.9"))
    result.assert_outcomes(failed=1, deselected=5)
    text = " ".join(result.outlines)
    assert "< 3.9" in text
    assert "  advice: stop: acceptance length " in text
    assert "is below 3.90" in text
    again = text[text.index("  again") :]
    assert "pytest --pyargs 'pytest_specdec.acceptance.test_procedure::test_3_acceptance[tiny-fake]'" in again
    assert "--specdec-acceptance=acceptance_length=3.9" in again


def test_a_class_has_a_floor_of_its_own(pytester: pytest.Pytester, write_config: Callable[..., Path]) -> None:
    lines = (json.dumps({"prompt": f"Number {n}", "category": "ab"[n % 2]}) for n in range(16))
    (pytester.path / "classes.jsonl").write_text("\n".join(lines))
    write_config(measure=None, workloads={"classes": {"path": "classes.jsonl"}})
    floors = "class_acceptance_length=classes:1.1,classes/b:3.9"
    small = settings("requests=16", "workloads=classes", floors)
    result = run(pytester, "--specdec-config=fake.json", "-k", "test_3", *small)
    result.assert_outcomes(failed=1, deselected=5)
    result.stdout.fnmatch_lines(
        ["*ok*min_acceptance_length*>= 1.10*", "*FAIL*min_class_acceptance_length[[]b[]]*>= 3.90*"]
    )


def test_a_floor_of_a_class_that_is_not_there_starts_nothing(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config(measure=None)
    result = run(pytester, "--specdec-config=fake.json", *settings("class_acceptance_length=tinny:2"))
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*class_acceptance_length: tinny: no such workload in step 3 (there are tiny)*"])
    assert not list(pytester.path.glob(".specdec/**/*.log"))


def test_a_load_point_of_the_config_is_used(pytester: pytest.Pytester, write_config: Callable[..., Path]) -> None:
    write_config(load={"high": {"concurrency": 3, "num_requests": 12}}, measure=None)
    result = run(pytester, "--specdec-config=fake.json", "--specdec-plan", "--specdec-acceptance=workloads=tiny")
    result.stdout.fnmatch_lines(["*workload tiny: 12 requests at concurrency 3, both sides*"])


def test_without_a_config_every_step_is_skipped(pytester: pytest.Pytester) -> None:
    result = run(pytester)
    result.assert_outcomes(skipped=8)
    result.stdout.fnmatch_lines(["*no speculative config*"])


def test_a_mistyped_setting_stops_the_run_before_anything_starts(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config()
    result = run(pytester, "--specdec-config=fake.json", "--specdec-acceptance=tpot_gian=0.2")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*unknown name 'tpot_gian', did you mean 'tpot_gain'?*"])


def test_the_ini_file_s_settings_stand_below_the_option_s(
    pytester: pytest.Pytester, write_config: Callable[..., Path]
) -> None:
    write_config()
    pytester.makeini("[pytest]\nspecdec_acceptance =\n    workloads=tiny\n    low=2\n    high=9\n")
    result = run(pytester, "--specdec-config=fake.json", "--specdec-plan", "--specdec-acceptance=high=5")
    result.stdout.fnmatch_lines(["*at concurrency 2, both sides*", "*at concurrency 5, both sides*"])


@pytest.mark.parametrize("name", ["conftest.py", "test_procedure.py"])
def test_the_suite_to_copy_is_the_packaged_one(name: str) -> None:
    package = Path(pytest_specdec.__file__).parent
    copy = package.parent / "example_suites" / "acceptance" / name
    assert copy.read_text() == (package / "acceptance" / name).read_text()
