"""Every method that CPU vLLM can run, through the public plugin: was speculation really on, and do the numbers agree?

One pytest session measures them all; four of them share a target, and so one baseline.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.live_project import Finished, LiveProject

SMOLLM2 = "../models/smollm2-135m-instruct"
METHODS: dict[str, dict[str, Any]] = {
    "ngram": {"num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    "suffix": {"num_speculative_tokens": 8},
    "draft_model": {"model": "../drafts/smollm2-135m-draft", "num_speculative_tokens": 3},
    "eagle3": {"model": "../drafts/smollm2-135m-eagle3", "num_speculative_tokens": 3},
    "mtp": {"num_speculative_tokens": 1},
}
LEARNED = ("draft_model", "eagle3")
"""Methods that draft at every step."""
REQUESTS = 6
PROMPTS = 40
"""So many that a few near ties leave no doubt: where nothing differs 19 would do."""
KEPT = ("ngram", "draft_model")
"""Methods whose answers are judged: one that drafts now and then, one that drafts at every step."""

TESTS = f"""
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.spec_load(load="pair", workload="code", num_requests={REQUESTS}, rounds=2, max_rounds=2)


@pytest.mark.spec_slo(min_acceptance_length=1.0, min_output_match=0.0)
def test_method(spec_comparison, spec_servers):
    def metrics(url):
        with urlopen(url + "/metrics") as answer:
            return answer.read().decode()

    assert "vllm:spec_decode_num_drafts_total" in metrics(spec_servers.specdec_url)
    assert "vllm:spec_decode" not in metrics(spec_servers.baseline_url)


@pytest.mark.spec_load(num_requests={PROMPTS}, max_tokens=12)
@pytest.mark.spec_slo(lossless=True, configs={KEPT})
def test_answers(spec_comparison):
    pass
"""


@pytest.fixture(scope="module")
def finished(make_project: Callable[[str], LiveProject]) -> Finished:
    """One session over all methods."""
    project = make_project("five-methods")
    for method, fields in METHODS.items():
        speculative = {"method": method, **fields}
        if method == "mtp":
            # So small a model answers soon; a run must last long enough for a hiccup of the machine not to spoil it.
            project.add_config(method, "../models/tiny-mimo", speculative, max_tokens=96, load_format="dummy")
        else:
            project.add_config(method, SMOLLM2, speculative)
    project.add_tests(TESTS)
    project.start()
    return project.finish(timeout_s=3000)


def test_all_gates_pass_and_pytest_says_so(finished: Finished) -> None:
    assert finished.exit_code == 0, finished.output
    gates = [gate for gate in finished.document.gates if gate.outcome != "skipped"]
    assert sorted((gate.config_id, gate.outcome) for gate in gates) == sorted(
        (one, "passed") for one in (*METHODS, *KEPT)
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_speculating_server_drafts_and_the_baseline_does_not(finished: Finished, method: str) -> None:
    assert all(run.counters.drafts for run in finished.runs(f"test_method[{method}]", "specdec"))
    assert all(run.counters.drafts is None for run in finished.runs(f"test_method[{method}]", "baseline"))


@pytest.mark.parametrize("method", METHODS)
def test_the_servers_differ_by_their_speculation_alone(finished: Finished, method: str) -> None:
    comparison = finished.comparison(finished.gate(f"test_method[{method}]"))
    flags = {server.arm: list(server.command) for server in comparison.servers}
    # vLLM 0.32 refuses the flag that makes answers tell their acceptance on a server without speculation.
    for flag, expected in (
        ("--speculative-config", {"method": method, **METHODS[method]}),
        ("--per-request-spec-decode-metrics", "detailed"),
    ):
        at = flags["specdec"].index(flag)
        value = flags["specdec"][at + 1]
        assert (json.loads(value) if value.startswith("{") else value) == expected
        del flags["specdec"][at : at + 2]
    own = ("--port", "--served-model-name")
    bare = {
        arm: [w for w, before in zip(words, ["", *words], strict=False) if before not in own]
        for arm, words in flags.items()
    }
    assert bare["specdec"] == bare["baseline"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("arm", ["baseline", "specdec"])
def test_the_server_counts_the_tokens_that_the_client_received(finished: Finished, method: str, arm: str) -> None:
    for run in finished.runs(f"test_method[{method}]", arm):
        assert len(run.samples) == REQUESTS
        assert [sample.error for sample in run.samples] == [None] * REQUESTS
        assert run.counters.finished_requests == REQUESTS
        assert run.counters.generation_tokens == sum(sample.completion_tokens for sample in run.samples)
        assert run.counters.prompt_tokens == sum(sample.prompt_tokens or 0 for sample in run.samples)


@pytest.mark.parametrize("method", METHODS)
def test_chunks_hold_what_was_drafted_and_accepted(finished: Finished, method: str) -> None:
    """Each decode step yields one token of the target and those that were accepted; only an answer's end may cut some off."""
    for run in finished.runs(f"test_method[{method}]", "specdec"):
        counters = run.counters
        assert counters.drafts is not None
        assert counters.draft_tokens is not None
        assert counters.accepted_tokens is not None
        assert counters.decode_steps is not None
        assert (
            counters.accepted_tokens
            <= counters.draft_tokens
            <= counters.drafts * METHODS[method]["num_speculative_tokens"]
        )
        decoded = sum(sum((sample.chunk_tokens or ())[1:]) for sample in run.samples)
        cut = counters.decode_steps + counters.accepted_tokens - decoded
        assert 0 <= cut <= REQUESTS * METHODS[method]["num_speculative_tokens"]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "mtp"])
def test_a_real_draft_is_accepted_for_real(finished: Finished, method: str) -> None:
    verdict = finished.gate(f"test_method[{method}]").verdicts[0]
    assert verdict.estimate.value > 1.3


@pytest.mark.parametrize("method", LEARNED)
def test_a_learned_draft_drafts_at_every_step(finished: Finished, method: str) -> None:
    for run in finished.runs(f"test_method[{method}]", "specdec"):
        assert run.counters.drafts is not None
        assert run.counters.decode_steps is not None
        # A step that only has room for the target's own token (the last before max_tokens) drafts nothing.
        assert run.counters.decode_steps - run.counters.drafts <= REQUESTS


def test_a_random_mtp_head_is_hardly_ever_right(finished: Finished) -> None:
    verdict = finished.gate("test_method[mtp]").verdicts[0]
    assert 1.0 <= verdict.estimate.value < 1.05


def test_configs_with_one_target_share_a_baseline(finished: Finished) -> None:
    logs = {
        server.log
        for comparison in finished.document.comparisons.values()
        for server in comparison.servers
        if server.arm == "baseline"
    }
    assert len(logs) == 2, logs


@pytest.mark.parametrize("method", METHODS)
def test_answers_are_compared_under_load_and_one_at_a_time(finished: Finished, method: str) -> None:
    outputs = finished.comparison(finished.gate(f"test_method[{method}]")).outputs
    assert outputs is not None
    assert outputs.source == "token ids"
    assert len(outputs.of("speculation", "load")) == 2 * REQUESTS
    assert len(outputs.of("speculation", "alone")) == REQUESTS
    # Suffix decoding gets fresh prompts in every round, so that only the first one's are asked again.
    assert len(outputs.of("baseline", "composition")) == (1 if method == "suffix" else 2) * REQUESTS


@pytest.mark.parametrize("method", METHODS)
def test_where_answers_part_both_tokens_are_almost_equally_likely(finished: Finished, method: str) -> None:
    """No method lets a token through that the target would not have said: differences are ties that rounding decides."""
    outputs = finished.comparison(finished.gate(f"test_method[{method}]")).outputs
    assert outputs is not None
    margins = [pair.margin_nats for pair in outputs.pairs if not pair.equal]
    assert all(margin is not None and margin <= outputs.tie_margin_nats for margin in margins), margins


@pytest.mark.parametrize("method", KEPT)
def test_greedy_answers_are_judged_to_be_the_targets_own(finished: Finished, method: str) -> None:
    gate = finished.gate(f"test_answers[{method}]")
    (verdict,) = gate.verdicts
    assert verdict.requirement.objective == "lossless"
    assert (verdict.outcome, verdict.estimate.value) == ("ok", 1.0), verdict.estimate.remark
    outputs = finished.comparison(gate).outputs
    assert outputs is not None
    assert outputs.source == "token ids"
    for pairs, times in (
        (outputs.of("speculation", "load"), 2),
        (outputs.of("speculation", "alone"), 1),
        (outputs.of("baseline", "composition"), 2),
    ):
        assert Counter(Counter(pair.prompt for pair in pairs).values()) == {times: PROMPTS}


@pytest.mark.parametrize("method", KEPT)
def test_answers_that_are_judged_hold_accepted_drafts(finished: Finished, method: str) -> None:
    for run in finished.runs(f"test_answers[{method}]", "specdec"):
        assert run.counters.accepted_tokens
        assert sum(sample.spec is not None and sample.spec.accepted_tokens > 0 for sample in run.samples) > PROMPTS / 4
