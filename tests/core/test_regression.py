"""``max_regression``: what a change is, which saved results it may be held against, and what is said where none serves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.core.saved import Saved, StoredRun, changed_since, differing_conditions, pick, run_name
from tests.core.comparison_builder import build_comparison, scaled_in_time

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Verdict

NOISE: dict[str, Any] = {"noise": 0.03, "prompt_spread": 0.3, "round_drift": 0.01}


def verdicts(now: Comparison, before: Comparison, value: object) -> dict[str, Verdict]:
    saved = Saved("the release", before)
    found = judge(now, REGISTRY["max_regression"].parse(value), saved_for=lambda _: saved)
    return {verdict.requirement.part or "": verdict for verdict in found}


def test_figures_of_exact_data_are_exact() -> None:
    before = build_comparison(tpot_base_ms=10, tpot_spec_ms=7)
    now = build_comparison(tpot_base_ms=10, tpot_spec_ms=7.7)
    found = verdicts(now, before, {"tpot": 0.05, "tpot_gain": 0.05, "acceptance_length": 0.0})
    assert found["tpot"].estimate.value == pytest.approx(0.1)
    assert found["tpot_gain"].estimate.value == pytest.approx(0.07)
    assert found["acceptance_length"].estimate.value == 0
    assert [one.outcome for one in found.values()] == ["FAIL", "ok", "FAIL"]


def test_throughput_lost_is_a_fraction_of_what_it_was() -> None:
    before = build_comparison(requests=32)
    found = verdicts(scaled_in_time(before, 1.25), before, {"throughput": 0.3})
    assert found["throughput"].estimate.value == pytest.approx(0.2)
    assert found["throughput"].outcome == "ok"


def test_acceptance_lost_is_a_fraction_of_the_length() -> None:
    before = build_comparison(acceptance=(1.0, 1.0, 0.0), tokens=34)
    now = build_comparison(acceptance=(1.0, 0.0, 0.0), tokens=34)
    change = verdicts(now, before, {"acceptance_length": 0.05})["acceptance_length"]
    assert change.estimate.value == pytest.approx(1 / 3)
    assert change.outcome == "FAIL"


def test_prompts_that_differ_do_not_blur_a_change() -> None:
    before = build_comparison(**NOISE, seed=1)
    now = build_comparison(tpot_spec_ms=8.4, **NOISE, seed=1)
    change = verdicts(now, before, {"tpot": 0.05})["tpot"].estimate
    assert change.value == pytest.approx(0.2, abs=0.02)
    assert change.low is not None
    assert change.high is not None
    assert change.high - change.low < 0.1  # the prompts themselves spread by 30 %


def test_remark_has_both_figures_and_what_the_baseline_did() -> None:
    before = build_comparison()
    remark = verdicts(scaled_in_time(before, 1.1), before, {"tpot": 0.05})["tpot"].estimate.remark
    assert remark == (
        "7.00 ms (7.00 .. 7.00) in the release, 7.70 ms (7.70 .. 7.70) now; the baseline's own TPOT changed by +10.0 %"
    )


def test_plain_number_is_held_against_all_that_the_load_can_tell() -> None:
    closed = build_comparison()
    assert list(verdicts(closed, closed, 0.05)) == ["tpot", "throughput", "acceptance_length"]
    opened = build_comparison(load=LoadSpec(request_rate=4.0, concurrency=None))
    assert list(verdicts(opened, opened, 0.05)) == ["tpot", "acceptance_length"]


def test_without_a_saved_result_there_is_nothing_to_judge() -> None:
    now = build_comparison()
    with pytest.raises(CannotMeasure, match="no saved result was given") as raised:
        judge(now, REGISTRY["max_regression"].parse(0.05))
    assert "--specdec-save" in raised.value.remedy


def test_saved_result_of_other_prompts_is_refused() -> None:
    now = build_comparison()
    elsewhere = build_comparison(fresh=True)
    moved = replace(
        now,
        runs=tuple(
            replace(run, samples=tuple(replace(one, prompt=one.prompt + 100) for one in run.samples))
            for run in now.runs
        ),
    )
    assert elsewhere.plan_is_fresh
    with pytest.raises(CannotMeasure, match="0 prompts in common, of 16"):
        verdicts(now, moved, {"tpot": 0.05})


@pytest.mark.parametrize("value", [-0.1, 5, "0.05", True, {}, {"speed": 0.1}, {"tpot": 2}])
def test_values_that_mean_nothing_are_refused(value: object) -> None:
    with pytest.raises(MarkError):
        REGISTRY["max_regression"].parse(value)


def test_a_mistyped_quantity_is_recognised() -> None:
    with pytest.raises(MarkError, match="did you mean 'acceptance_length'"):
        REGISTRY["max_regression"].parse({"aceptance_length": 0.05})


def server_changed(comparison: Comparison, **changes: Any) -> Comparison:
    return replace(comparison, servers=tuple(replace(one, **changes) for one in comparison.servers))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: replace(one, num_speculative_tokens=5), "num_speculative_tokens 5 against 3"),
        (lambda one: replace(one, method="ngram"), "method ngram against eagle3"),
        (lambda one: server_changed(one, model="other"), "target model other against target"),
        (lambda one: replace(one, device="NVIDIA A100"), "device NVIDIA A100 against unknown"),
        (
            lambda one: replace(one, workload=replace(one.workload, sha256="1" * 64)),
            "workload (sha256) 111111111111 against 000000000000",
        ),
        (lambda one: replace(one, load=replace(one.load, temperature=0.7)), "temperature 0.7 against 0.0"),
        (lambda one: replace(one, load=replace(one.load, seed=3)), "seed 3 against 0"),
        (lambda one: replace(one, load=replace(one.load, concurrency=8)), "concurrency 8 against 4"),
        (lambda one: replace(one, load=replace(one.load, ignore_eos=True)), "ignore_eos True against False"),
        (lambda one: replace(one, extra={"verification": "synthetic"}), "verification synthetic against standard"),
        (lambda one: replace(one, extra={"schedule": "[[1, 4, 3]]"}), "K by batch size [[1, 4, 3]] against none"),
        (lambda one: replace(one, plan_is_fresh=True), "fresh prompts every round True against False"),
    ],
)
def test_unequal_conditions_are_named(change: Any, said: str) -> None:
    now = build_comparison()
    assert differing_conditions(now, change(now)) == (said,)


def test_effort_name_and_folder_of_the_target_are_no_conditions() -> None:
    now = server_changed(build_comparison(), model="/ci/1/models/target")
    saved = server_changed(
        replace(now, load=replace(now.load, rounds=8, workload="../chat.jsonl")), model="../models/target"
    )
    assert differing_conditions(now, saved) == ()


def test_what_is_only_planned_is_open_until_it_is_known() -> None:
    saved = replace(build_comparison(), device="NVIDIA H200")
    planned = replace(saved, servers=(), runs=(), device=None)
    assert differing_conditions(planned, saved, model="target") == ()
    assert differing_conditions(planned, saved, model="other") == ("target model target against other",)


def test_another_vllm_is_named_and_compared() -> None:
    saved = build_comparison()
    now = server_changed(saved, version="0.27.0", command=("serve", "--speculative-config", '{"model": "new"}'))
    assert differing_conditions(now, saved) == ()
    assert changed_since(now, saved) == ("vllm 0.26.0 against 0.27.0", "speculative_config model None against new")


def stored(*comparisons: Comparison, name: str = "before", failed: bool = False, proven_only: bool = True) -> StoredRun:
    gate = GateRecord("test", "eagle3", "failed" if failed else "passed", comparison="0")
    kept = {str(place): one for place, one in enumerate(comparisons)}
    document = ResultDocument(created_unix_s=0.0, environment={}, comparisons=kept, gates=(gate,))
    return StoredRun(name, document, proven_only=proven_only)


def test_newest_run_under_equal_conditions_is_picked() -> None:
    now = build_comparison()
    other = replace(now, num_speculative_tokens=5)
    runs = [stored(other, name="newest"), stored(other, now, name="older"), stored(now, name="oldest")]
    assert pick(now, runs, where="the folder").name == "older"


def test_run_whose_gate_failed_is_no_reference_unless_it_is_asked_for() -> None:
    now = build_comparison()
    runs = [stored(now, name="missed", failed=True), stored(now, name="met")]
    assert pick(now, runs, where="the folder").name == "met"
    assert pick(now, [stored(now, failed=True, proven_only=False)], where="x.json").name == "before"


def test_measurement_that_broke_off_is_no_reference() -> None:
    now = build_comparison()
    broken_off = replace(now, runs=now.runs[:4])
    assert broken_off.rounds == 2
    assert pick(now, [stored(broken_off, name="broken"), stored(now, name="whole")], where="the folder").name == "whole"


def test_error_says_what_differs_from_the_nearest() -> None:
    now = build_comparison()
    far = replace(now, num_speculative_tokens=5, device="NVIDIA A100")
    near = replace(now, num_speculative_tokens=5)
    with pytest.raises(CannotMeasure, match="num_speculative_tokens 5 against 3 \\(near\\)") as raised:
        pick(now, [stored(far, name="far"), stored(near, name="near")], where="the folder")
    assert "--specdec-save" in raised.value.remedy


def test_error_says_what_there_is() -> None:
    now = replace(build_comparison(), config_id="ngram")
    with pytest.raises(CannotMeasure, match="config 'ngram' on workload 'chat', concurrency 4") as raised:
        pick(now, [stored(build_comparison())], where="the folder")
    assert "eagle3 on chat, concurrency 4" in raised.value.remedy


def test_a_run_is_called_by_name_time_and_code() -> None:
    document = replace(stored().document, environment={"commit": "4f2a1c9d03b5", "branch": "main", "dirty": "yes"})
    assert run_name(document, "file.json") == "file.json of 1970-01-01 00:00 (4f2a1c9d+, main)"
    named = replace(document, environment={"saved_as": "release"})
    assert run_name(named, "file.json") == "release of 1970-01-01 00:00"
