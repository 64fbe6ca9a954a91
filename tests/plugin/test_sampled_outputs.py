"""Gates on sampled and on degenerate answers, against servers with planted corruption and without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec import sampling_pass
from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import Comparison

GATE = """
    import pytest

    @pytest.mark.spec_load(workload="prompts", concurrency=8, num_requests=16, {load})
    @pytest.mark.spec_slo({slo})
    def test_gate(spec_comparison):
        pass
"""
# Samples come faster than a real server's would; timed rounds need steps that a busy machine keeps up with.
SAMPLED = {"tpot_ms": 6, "ttft_ms": 3, "answer_tokens": [24, 24]}


@pytest.fixture
def run(pytester: pytest.Pytester, write_config: Callable[..., Any]) -> Callable[..., pytest.RunResult]:
    """Run one gate against fakes."""
    (pytester.path / "prompts.jsonl").write_text(
        "\n".join(json.dumps({"prompt": f"Number {number}: go on."}) for number in range(16))
    )

    def call(specdec: dict[str, Any], slo: str, load: str, **fake: Any) -> pytest.RunResult:
        write_config(
            fake=SAMPLED | fake | {"specdec": specdec},
            workloads={"prompts": {"path": "prompts.jsonl"}},
            measure={"rounds": 2, "max_rounds": 2},
        )
        pytester.makepyfile(test_gate=GATE.format(load=load, slo=slo))
        return pytester.runpytest("--specdec-config=fake.json")

    return call


def comparison_in(pytester: pytest.Pytester) -> Comparison:
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    return comparison


def test_the_same_distribution_passes_and_no_token_is_kept(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    run({}, "lossless=True", "max_tokens=24, temperature=0.8").assert_outcomes(passed=1)
    sampled = comparison_in(pytester).sampled
    assert sampled is not None
    assert sampled.speculation.samples == (2048, 2048)
    assert sampled.calibration.samples == (1024, 1024)
    assert 'token_ids":[' not in (pytester.path / ".specdec" / "results.json").read_text()


def test_a_biased_sampler_fails_with_the_shift(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    result = run({"sampler_bias": 0.05}, "lossless=True", "max_tokens=24, temperature=0.8")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*lossless: sampled tokens differ (most likely token: p *), most likely token +*pp*",
            "*sampled outputs at temperature 0.8: 2048 answers of 16 prompts on each server, 6 tokens each, 32 at a time*",
            "*baseline against itself: p corrected: token 0 *",
        ]
    )
    sampled = comparison_in(pytester).sampled
    assert sampled is not None
    assert sampled.speculation.shift.value == pytest.approx(0.05, abs=0.03)


def test_a_few_samples_prove_nothing(run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_pass, "SAMPLES", 8)
    result = run({}, "lossless=True", "max_tokens=24, temperature=0.8")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*lossless not proven: 128 samples of 16 prompts show a bias of * pp at best, not of 5*"]
    )


def test_answers_that_loop_fail_and_are_noted(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        {"loop": {"after": 64}}, "max_loop_share=0.3", "max_tokens=110", answer_tokens=[70, 80], tpot_ms=4, ttft_ms=3
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*max_loop_share 100.0 % > 30 %*",
            "*answers (specdec / baseline): 100.0 / 0.0 % loop, 100.0 / 0.0 % are cut at max_tokens*",
            "*note: 100.0 % of the speculating server's answers loop, 0.0 % of the baseline's*",
        ]
    )
    assert all(
        sample.form is not None and not sample.form.loops
        for sample in comparison_in(pytester).arm("baseline")[0].samples
    )


def test_answers_without_loops_pass(run: Callable[..., pytest.RunResult]) -> None:
    result = run({}, "max_loop_share=0.3", "max_tokens=60", answer_tokens=[50, 58], tpot_ms=4, ttft_ms=3)
    result.assert_outcomes(passed=1)
