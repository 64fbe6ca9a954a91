"""In what two servers differ besides speculation."""

from __future__ import annotations

from pytest_specdec.core.samples import Arm, ServerRecord
from pytest_specdec.core.server_facts import ServerFacts, changed_by_vllm, differences, differences_of


def record(arm: Arm, facts: ServerFacts | None = None, changed: tuple[str, ...] = ()) -> ServerRecord:
    return ServerRecord(
        arm=arm, command=(), env={}, model="m", version=None, log="l", startup_s=1.0, facts=facts, changed_by_vllm=changed
    )  # fmt: skip


def arguments(**given: str) -> ServerFacts:
    return ServerFacts({"model": "m", **given})


def effective(**given: str) -> ServerFacts:
    return ServerFacts(effective=given)


def test_an_argument_of_one_side_is_named() -> None:
    assert differences(arguments(), arguments(max_num_seqs="64")) == ("max_num_seqs default against 64",)


def test_what_each_server_has_for_itself_and_speculation_do_not_count() -> None:
    own = arguments(port="1", host="h", served_model_name="x")
    speculating = arguments(port="2", speculative_config="{}", spec_method="ngram", per_request_spec_decode_metrics="x")
    assert differences(own, speculating) == ()


def test_a_setting_that_came_out_otherwise_is_named_with_the_change() -> None:
    assert differences(effective(tokens="1,000"), effective(tokens="900")) == ("tokens 1,000 against 900 (-10.0 %)",)


def test_a_setting_that_is_no_number_is_named_as_it_is() -> None:
    assert differences(effective(backend="A"), effective(backend="B")) == ("backend A against B",)


def test_a_setting_that_only_one_log_tells_is_no_difference() -> None:
    assert differences(effective(backend="A"), effective()) == ()


def test_a_size_in_bytes_is_named_only_where_no_log_tells_the_size_in_tokens() -> None:
    sizes = [ServerFacts({"kv_cache_memory_bytes": size}, {"KV cache tokens": size}) for size in ("2000", "1000")]
    assert differences(*sizes) == ("KV cache tokens 2000 against 1000 (-50.0 %)",)
    untold = [ServerFacts(facts.arguments) for facts in sizes]
    assert differences(*untold) == ("kv_cache_memory_bytes 2000 against 1000",)


def test_logs_without_arguments_are_not_compared() -> None:
    assert differences(ServerFacts(), arguments(max_num_seqs="64")) == ()


def test_the_last_server_of_each_arm_counts() -> None:
    servers = [
        record("baseline", effective(backend="A")),
        record("specdec", effective(backend="B")),
        record("specdec", effective(backend="A")),
    ]
    assert differences_of(servers) == ()


def test_servers_without_facts_have_no_differences() -> None:
    assert differences_of([record("baseline"), record("specdec", effective(backend="A"))]) == ()


def test_changes_are_gathered_by_side() -> None:
    servers = [record("baseline"), record("specdec", changed=("a", "b")), record("specdec", changed=("b", "c"))]
    assert changed_by_vllm(servers) == {"specdec": ("a", "b", "c")}
