"""Gates on outputs: what is found, what is let pass, and what is refused before any server starts."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.outputs import Outputs

REQUESTS = 28

GATE = f"""
    import pytest

    @pytest.mark.spec_load(workload="prompts", concurrency=%d, num_requests={REQUESTS}, max_tokens=24)
    @pytest.mark.spec_slo(%s)
    def test_gate(spec_comparison):
        pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, write_config: Callable[..., Any]) -> Callable[..., pytest.RunResult]:
    """Run one gate against fakes."""
    lines = (json.dumps({"prompt": f"Number {n}: go on, please."}) for n in range(REQUESTS))
    (pytester.path / "prompts.jsonl").write_text("\n".join(lines))

    def call(
        fake: dict[str, Any],
        slo: str = "lossless=True",
        *options: str,
        concurrency: int = 7,
        **envelope: Any,
    ) -> pytest.RunResult:
        write_config(
            fake=fake,
            workloads={"prompts": {"path": "prompts.jsonl"}},
            measure={"rounds": 2, "max_rounds": 2},
            **envelope,
        )
        pytester.makepyfile(test_gate=GATE % (concurrency, slo))
        return pytester.runpytest("--specdec-config=fake.json", *options)

    return call


def outputs_in(pytester: pytest.Pytester) -> Outputs:
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert comparison.outputs is not None
    return comparison.outputs


def test_equal_answers_pass_and_the_record_says_what_was_compared(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    result = run({}, "lossless=True, min_output_match=0.8")
    result.assert_outcomes(passed=1)
    outputs = outputs_in(pytester)
    assert len(outputs.of("speculation", "load")) == 2 * REQUESTS
    assert len(outputs.of("speculation", "alone")) == REQUESTS
    assert len(outputs.of("baseline", "composition")) == 2 * REQUESTS
    assert all(pair.equal for pair in outputs.pairs)
    assert [(one.arm, one.conditions) for one in outputs.passes] == [
        ("specdec", "one at a time"),
        ("baseline", "one at a time"),
    ]


def test_a_wrong_token_that_repeats_fails_with_its_place_and_margin(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    result = run({"specdec": {"corrupt_output": 0.05}}, "lossless=True, min_output_match=0.7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*1 of 2 objectives missed: lossless: * hard divergence* repeat*",
            "*FAIL*lossless*yes*no*",
            "*outputs at concurrency 7: equal * of 56, hard divergences *",
            "*outputs one at a time: equal * of 28, hard divergences *",
            "*noise floor, baseline at concurrency 7 against baseline one at a time: equal 56 of 56; the same load again*",
            "*hard divergence: prompt *, token *, 6.00 nats, the speculating server's token is the unlikely one; repeats*",
            "*Speculation lets tokens through*",
        ]
    )
    assert outputs_in(pytester).kept is None


def test_near_ties_of_single_prompts_pass_and_are_counted(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    result = run({"specdec": {"near_ties": 0.06}})
    result.assert_outcomes(passed=1)
    differing = [pair for pair in outputs_in(pytester).of("speculation", "load") if not pair.equal]
    assert differing
    assert all(pair.margin_nats == pytest.approx(0.01) for pair in differing)


def test_near_ties_without_end_are_more_than_noise(run: Callable[..., pytest.RunResult]) -> None:
    result = run({"specdec": {"near_ties": 0.7}})
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*lossless: more answers differ than noise explains*", "*near ties only*"])


def test_numerics_that_change_answers_on_both_sides_pass(run: Callable[..., pytest.RunResult]) -> None:
    run({"numeric_noise": 0.03, "near_ties": 0.05}).assert_outcomes(passed=1)


def test_tokens_swapped_at_the_borders_of_drafts_are_found(run: Callable[..., pytest.RunResult]) -> None:
    result = run({"specdec": {"swap_at_drafts": 0.1}})
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*hard divergence: prompt *; repeats (in 2 of 2 at concurrency 7, 1 of 1 one at a time)*"]
    )


def test_what_is_wrong_in_company_only_is_found_and_said(run: Callable[..., pytest.RunResult]) -> None:
    result = run({"specdec": {"corrupt_output": 0.3, "corrupt_only_concurrent": True}})
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*outputs one at a time: equal 28 of 28, hard divergences 0*",
            "*repeats (in 2 of 2 at concurrency 7, 0 of 1 one at a time)*",
            "*wrong at concurrency 7 only, and right one at a time*",
        ]
    )


def test_one_request_at_a_time_gets_its_noise_floor_from_several(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    run({}, concurrency=1).assert_outcomes(passed=1)
    outputs = outputs_in(pytester)
    assert [(one.arm, one.conditions) for one in outputs.passes] == [("baseline", "at concurrency 8, in another order")]
    assert len(outputs.of("baseline", "composition")) == 2 * REQUESTS
    assert outputs.of("speculation", "alone") == ()


def test_results_hold_no_tokens(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    run({"specdec": {"corrupt_output": 0.05}})
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert {sample.token_ids for one in comparison.runs for sample in one.samples} == {None}
    assert not (pytester.path / ".specdec" / "outputs.json").exists()


def test_kept_outputs_are_private_and_can_be_run_again(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    result = run({"specdec": {"corrupt_output": 0.05}}, "lossless=True", "--specdec-keep-outputs")
    result.stdout.fnmatch_lines(
        ["*baseline goes on  ' *", "*specdec goes on   ' *", "*outputs.json*readable by you alone*"]
    )
    path = pytester.path / ".specdec" / "outputs.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (entries,) = json.loads(path.read_text()).values()
    entry = entries[0]
    assert entry["path"] == "/v1/completions"
    assert entry["body"]["prompt"].startswith("Number ")
    assert entry["body"]["temperature"] == 0
    first, second = entry["answers"]
    at = entry["first_difference"]
    assert first[:at] == second[:at]
    assert first[at] != second[at]


@pytest.mark.parametrize(
    ("speculative", "allow", "words"),
    [
        (
            {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0},
            "synthetic",
            "*lossless: rejection_sample_method synthetic accepts drafted tokens by lot*",
        ),
        ({"rejection_sample_method": "fly"}, "lossy", "*lossless: rejection_sample_method fly is lossy by design*"),
    ],
)
def test_verification_that_is_not_the_real_one_is_an_error_before_any_start(
    run: Callable[..., pytest.RunResult],
    speculative: dict[str, Any],
    allow: str,
    words: str,
) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3} | speculative
    result = run({}, "lossless=True", f"--specdec-allow={allow}", speculative_config=config)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([words])
    assert "starting the" not in result.stdout.str()


def test_a_flag_of_one_side_that_changes_answers_is_an_error_before_any_start(
    run: Callable[..., pytest.RunResult],
) -> None:
    result = run({}, serve_specdec={"kv_cache_dtype": "fp8"})
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the speculating server alone has --kv-cache-dtype*", "*Move the flag*"])
    assert "starting the" not in result.stdout.str()


def test_sampling_is_refused_while_tests_are_collected(
    pytester: pytest.Pytester, write_config: Callable[..., Any]
) -> None:
    write_config()
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_load(workload="tiny", temperature=0.7)
        @pytest.mark.spec_slo(min_output_match=0.9)
        def test_gate(spec_comparison):
            pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*min_output_match compares answers token by token*temperature 0.7*"])


def test_other_objectives_are_judged_beside(run: Callable[..., pytest.RunResult]) -> None:
    result = run({"specdec": {"corrupt_output": 0.05}}, "lossless=True, min_acceptance_length=1.0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 2 objectives missed: lossless*", "*ok*min_acceptance_length*"])


def test_without_an_objective_of_outputs_nothing_more_is_asked(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    run({}, "min_acceptance_length=1.0").assert_outcomes(passed=1)
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert comparison.outputs is None
