"""Numbers that must not be believed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import InvalidMeasurement, RequestsFailed
from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.validity import check_comparison, check_run, verification_of
from tests.core.comparison_builder import build_comparison, change_counters, change_runs, change_samples

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm, Comparison, RequestSample


def complaint(comparison: Comparison) -> str:
    with pytest.raises(InvalidMeasurement) as raised:
        check_comparison(comparison)
    assert raised.value.remedy
    return raised.value.what


def failing(comparison: Comparison, *indices: int, arm: Arm = "specdec", rounds: tuple[int, ...] = (0,)) -> Comparison:
    """Some requests fail before their first token; the server never counted them as finished."""

    def failed(sample: RequestSample) -> RequestSample:
        if sample.index not in indices:
            return sample
        return replace(
            sample, error="HTTP 500: out of memory", token_times_s=(), chunk_tokens=None, completion_tokens=0
        )

    broken = change_samples(comparison, failed, arm=arm)
    return replace(
        comparison,
        runs=tuple(
            after if before.round in rounds else before
            for before, after in zip(comparison.runs, broken.runs, strict=True)
        ),
    )


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("token_ids", [False, True])
def test_a_sound_comparison_is_valid(fresh: bool, token_ids: bool) -> None:  # noqa: FBT001 - a table
    check_comparison(build_comparison(noise=0.1, fresh=fresh, token_ids=token_ids))


def test_a_run_is_checked_before_it_is_part_of_the_comparison() -> None:
    comparison = build_comparison()
    check_run(comparison.runs[0], replace(comparison, runs=()))


def test_nothing_can_be_said_without_a_complete_round() -> None:
    comparison = build_comparison()
    assert "no round" in complaint(replace(comparison, runs=comparison.runs[:1]))


@pytest.mark.parametrize("arm", ["baseline", "specdec"])
def test_a_failed_request_is_an_error_that_quotes_it(arm: Arm) -> None:
    with pytest.raises(RequestsFailed, match=rf"1 of 64 requests of the {arm} arm failed.*HTTP 500: out of memory"):
        check_comparison(failing(build_comparison(), 3, arm=arm))


def test_failures_within_the_tolerance_are_no_error() -> None:
    load = LoadSpec(concurrency=4, max_failures=0.05)
    check_comparison(failing(build_comparison(load=load), 3))


def test_failures_above_the_tolerance_are_an_error() -> None:
    load = LoadSpec(concurrency=4, max_failures=0.05)
    with pytest.raises(RequestsFailed):
        check_comparison(failing(build_comparison(load=load), 3, rounds=(0, 1, 2, 3)))


def test_a_tolerated_share_is_one_of_the_planned_rounds() -> None:
    # One of 16 is 6 %, but one of the planned 64 is 1.6 %.
    load = LoadSpec(concurrency=4, max_failures=0.02, rounds=4)
    broken = failing(build_comparison(load=load), 3)
    check_run(broken.runs[1], replace(broken, runs=()))


def test_a_run_in_which_all_requests_fail_is_not_tolerated() -> None:
    load = LoadSpec(concurrency=4, max_failures=0.9)
    with pytest.raises(RequestsFailed):
        check_comparison(failing(build_comparison(load=load), *range(16)))


@pytest.mark.parametrize(
    ("failed", "value"), [((3,), "max_failures=0.016"), ((3, 4), "max_failures=0.032"), ((3, 4, 5, 6), None)]
)
def test_a_tolerance_is_advised_where_it_is_small_and_then_it_suffices(
    failed: tuple[int, ...], value: str | None
) -> None:
    broken = failing(build_comparison(), *failed)
    with pytest.raises(RequestsFailed) as refused:
        check_comparison(broken)
    if value is None:
        assert "max_failures" not in refused.value.remedy
        return
    assert value in refused.value.remedy
    load = replace(broken.load, max_failures=float(value.partition("=")[2]))
    check_comparison(replace(broken, load=load))


def test_a_run_that_was_cut_short_is_invalid() -> None:
    short = change_runs(build_comparison(), lambda run: replace(run, samples=run.samples[:-1]), arm="specdec")
    assert "15 requests were sent instead of the planned 16" in complaint(short)


def test_a_success_without_tokens_is_invalid() -> None:
    empty = change_samples(build_comparison(), lambda one: replace(one, token_times_s=()), arm="specdec")
    assert "in 0 chunks" in complaint(empty)


def test_streams_must_carry_the_tokens_that_usage_counts() -> None:
    lossy = change_samples(
        build_comparison(),
        lambda one: replace(one, chunk_tokens=(1, *(0 for _ in one.token_times_s[1:]))),
        arm="specdec",
    )
    assert "the server's usage says" in complaint(lossy)


def test_a_server_without_speculation_counters_did_not_speculate() -> None:
    off = change_counters(
        build_comparison(), drafts=None, draft_tokens=None, accepted_tokens=None, accepted_per_position=None
    )
    assert "speculation was not on" in complaint(off)


def test_a_server_without_any_counters_is_told_apart() -> None:
    silent = change_counters(
        build_comparison(),
        **dict.fromkeys(
            ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position", "generation_tokens", "decode_steps")
        ),
    )
    assert "no vllm: counters at all" in complaint(silent)


@pytest.mark.parametrize("drafts", [0, 10])
def test_a_baseline_that_counts_drafts_speculates(drafts: int) -> None:
    speculating = change_counters(
        build_comparison(), "baseline", drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=0
    )
    assert "the baseline speculates too" in complaint(speculating)


@pytest.mark.parametrize("method", ["eagle", "eagle3", "draft_model", "mtp", "medusa", None])
def test_a_draft_model_that_never_drafts_was_not_active(method: str | None) -> None:
    assert "not one draft" in complaint(build_comparison(coverage=0.0, method=method))


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "suffix"])
def test_lookup_that_never_finds_anything_is_judged_by_its_gain_only(method: str) -> None:
    comparison = build_comparison(coverage=0.0, method=method, tpot_spec_ms=10)
    (verdict,) = judge(comparison, REGISTRY["tpot_gain"].parse(-0.1))
    assert verdict.outcome == "ok"


def test_another_number_of_draft_positions_than_configured_is_named() -> None:
    comparison = replace(build_comparison(k=3), num_speculative_tokens=5)
    assert "drafts up to 3 tokens, the config states num_speculative_tokens 5" in complaint(comparison)


def test_k_is_not_checked_where_the_config_leaves_it_open() -> None:
    check_comparison(replace(build_comparison(k=3), num_speculative_tokens=None))


@pytest.mark.parametrize(
    "counters",
    [
        {"accepted_tokens": 10**6, "accepted_per_position": None},
        {"accepted_per_position": (1, 1, 1)},
        {"draft_tokens": 10**6},
        {"accepted_tokens": -1, "accepted_per_position": None},
    ],
)
def test_counters_that_contradict_each_other_are_invalid(counters: dict[str, object]) -> None:
    assert "counters contradict each other" in complaint(change_counters(build_comparison(), **counters))


@pytest.mark.parametrize("more", [-1, 1, 500])
def test_tokens_that_this_client_did_not_get_are_foreign_traffic(more: int) -> None:
    generated = 16 * 33 + more
    text = complaint(change_counters(build_comparison(), "baseline", generation_tokens=generated))
    assert f"counted {generated} generated tokens, this client received 528" in text


def test_tokens_of_requests_that_failed_half_way_are_not_foreign() -> None:
    load = LoadSpec(concurrency=4, max_failures=0.1)
    comparison = build_comparison(load=load)
    check_comparison(failing(comparison, 3))


def test_requests_that_this_client_did_not_send_are_foreign_traffic() -> None:
    assert "the server finished 20 requests" in complaint(change_counters(build_comparison(), finished_requests=20))


def test_arms_that_got_different_requests_are_not_compared() -> None:
    other = change_samples(build_comparison(), lambda one: replace(one, prompt=one.prompt + 1), arm="specdec")
    assert "did not get the same requests" in complaint(other)


def test_a_prefix_cache_that_was_reset_on_one_side_only_is_invalid() -> None:
    uneven = change_runs(build_comparison(), lambda run: replace(run, prefix_cache_reset=False), arm="specdec")
    assert "only the baseline arm had its prefix cache reset" in complaint(uneven)


def test_a_fresh_plan_must_not_repeat_prompts() -> None:
    assert "were sent to the speculating server before" in complaint(replace(build_comparison(), plan_is_fresh=True))


def test_servers_of_different_versions_are_not_compared() -> None:
    comparison = build_comparison()
    newer = replace(comparison.servers[1], version="0.32.0")
    assert "baseline 0.26.0; specdec 0.32.0" in complaint(replace(comparison, servers=(comparison.servers[0], newer)))


def with_attested(method: str | None, tokens: int | None, *, stated: str | None, k: int | None = 3) -> Comparison:
    comparison = replace(build_comparison(k=3), method=stated, num_speculative_tokens=k)
    told = replace(comparison.servers[1], attested_method=method, attested_tokens=tokens)
    return replace(comparison, servers=(comparison.servers[0], told))


def test_a_method_that_vllm_silently_exchanged_is_named() -> None:
    fallen_back = complaint(with_attested("draft_model", 3, stated="mtp"))
    assert "speculates with draft_model, 3 tokens; the config states mtp, 3 tokens" in fallen_back


def test_a_k_that_vllm_silently_changed_is_named() -> None:
    assert "speculates with mtp, 1 tokens; the config states mtp, 3 tokens" in complaint(
        with_attested("mtp", 1, stated="mtp")
    )


@pytest.mark.parametrize(
    ("attested", "stated", "k"), [("mtp", "deepseek_mtp", 3), ("eagle3", None, None), (None, "eagle3", 3)]
)
def test_an_alias_or_what_the_config_leaves_open_is_no_difference(
    attested: str | None, stated: str | None, k: int | None
) -> None:
    check_comparison(with_attested(attested, 3, stated=stated, k=k))


@pytest.mark.parametrize(
    ("config", "verification"),
    [
        ({"method": "eagle3"}, None),
        ({"method": "eagle3", "rejection_sample_method": "standard"}, None),
        ({"method": "eagle3", "rejection_sample_method": "synthetic"}, "synthetic"),
        ({"method": "eagle3", "rejection_sample_method": "fly"}, "fly"),
    ],
)
def test_verification_that_is_not_real_is_named(config: dict[str, object], verification: str | None) -> None:
    assert verification_of(config) == verification
