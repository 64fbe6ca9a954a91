"""Scrapes of real vLLM servers, read back to the figures that are known to be right."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest

from pytest_specdec.core.errors import ScrapeError
from pytest_specdec.core.samples import ServerCounters
from pytest_specdec.serving.prometheus import difference, parse_scrape, process_start_unix_s, running_requests

METRICS = Path(__file__).parents[1] / "data" / "metrics"


def scrape(name: str) -> str:
    return (METRICS / name).read_text(encoding="utf-8")


def ngram_window() -> ServerCounters:
    return difference(parse_scrape(scrape("ngram_before.txt")), parse_scrape(scrape("ngram_after.txt")))


def test_difference_of_real_scrapes_has_the_known_speculation_counts() -> None:
    window = ngram_window()
    assert (window.drafts, window.draft_tokens, window.accepted_tokens) == (133, 512, 290)
    assert window.accepted_per_position == (110, 70, 60, 50)


def test_difference_of_real_scrapes_has_the_known_work() -> None:
    window = ngram_window()
    assert (window.generation_tokens, window.finished_requests, window.decode_steps) == (545, 8, 254)
    assert (window.prompt_tokens, window.preemptions) == (23, 0)


def test_latency_sums_come_with_their_counts() -> None:
    window = ngram_window()
    assert (window.tpot_count, window.ttft_count) == (8, 8)
    assert window.tpot_sum_s == pytest.approx(0.05131886965)
    assert window.ttft_sum_s == pytest.approx(3.237074375)


def test_engines_of_one_server_are_summed() -> None:
    counters = parse_scrape(scrape("data_parallel.txt"))
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (513, 1014, 741)
    assert counters.accepted_per_position == (429, 312)


def test_latency_sums_are_added_over_engines() -> None:
    name = "vllm:time_to_first_token_seconds_sum"
    assert parse_scrape(f'{name}{{engine="0"}} 0.5\n{name}{{engine="1"}} 0.25\n').ttft_sum_s == 0.75


def test_created_time_stamps_are_not_counted() -> None:
    text = scrape("ngram_after.txt")
    without_created = "\n".join(line for line in text.splitlines() if "_created" not in line)
    assert parse_scrape(text) == parse_scrape(without_created)


def test_plain_server_has_no_speculation_counts() -> None:
    counters = parse_scrape(scrape("baseline.txt"))
    assert counters.generation_tokens == 0
    assert (counters.drafts, counters.accepted_tokens, counters.accepted_per_position) == (None, None, None)


def test_missing_family_is_unknown_rather_than_zero() -> None:
    assert parse_scrape(scrape("data_parallel.txt")).decode_steps is None


def test_text_without_vllm_lines_names_the_flag_that_removes_them() -> None:
    text = "# TYPE process_open_fds gauge\nprocess_open_fds 34.0\n"
    with pytest.raises(ScrapeError, match="--disable-log-stats"):
        parse_scrape(text)


@pytest.mark.parametrize("text", ["", "<html>502 Bad Gateway</html>", 'vllm:a{engine="0" 1', "vllm:a one"])
def test_text_that_is_no_scrape_is_refused(text: str) -> None:
    with pytest.raises(ScrapeError):
        parse_scrape(text)


@settings(deadline=None)
@given(st.text() | st.lists(st.sampled_from(['vllm:a{b="', '"}', " 1", "\n", "# TYPE ", "{", "\\", ","])).map("".join))
def test_any_text_is_read_or_refused_in_our_own_words(text: str) -> None:
    try:
        counters = parse_scrape(text)
    except ScrapeError:
        return
    assert isinstance(counters, ServerCounters)


def test_half_of_the_speculation_family_is_refused() -> None:
    text = "\n".join(line for line in scrape("data_parallel.txt").splitlines() if "accepted" not in line)
    with pytest.raises(ScrapeError, match="vllm:spec_decode_num_accepted_tokens_total is missing"):
        parse_scrape(text)


def test_two_scrapes_in_one_file_are_refused() -> None:
    with pytest.raises(ScrapeError, match="twice"):
        parse_scrape(scrape("data_parallel.txt") * 2)


def test_counters_of_two_models_are_not_added_up() -> None:
    text = scrape("data_parallel.txt")
    with pytest.raises(ScrapeError, match="2 models in one scrape: m, other"):
        parse_scrape(text + text.replace('model_name="m"', 'model_name="other"'))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0", "2.5"])
def test_value_that_no_counter_can_have_is_refused(value: str) -> None:
    text = scrape("data_parallel.txt").replace("295.0", value)
    with pytest.raises(ScrapeError, match="no counter can be"):
        parse_scrape(text)


def test_gap_in_the_draft_positions_is_refused() -> None:
    text = scrape("data_parallel.txt").replace('position="1"', 'position="2"')
    with pytest.raises(ScrapeError, match=r"\[0, 2\]"):
        parse_scrape(text)


def test_counter_that_went_down_is_a_restart() -> None:
    with pytest.raises(ScrapeError, match="went down from 133 to 0: the server restarted"):
        difference(parse_scrape(scrape("ngram_after.txt")), parse_scrape(scrape("ngram_before.txt")))


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ServerCounters)])
def test_every_counter_is_subtracted_and_watched_for_a_restart(field: str) -> None:
    low: Any
    high: Any
    low, high = ((1, 1), (3, 3)) if field == "accepted_per_position" else (1, 3)
    before = dataclasses.replace(ServerCounters(), **{field: low})
    after = dataclasses.replace(ServerCounters(), **{field: high})
    assert getattr(difference(before, after), field) == ((2, 2) if field == "accepted_per_position" else 2)
    with pytest.raises(ScrapeError, match="went down"):
        difference(after, before)


@pytest.mark.parametrize(
    ("before", "after"), [("ngram_before.txt", "baseline.txt"), ("baseline.txt", "ngram_after.txt")]
)
def test_speculation_counters_on_one_side_only_are_two_servers(before: str, after: str) -> None:
    with pytest.raises(ScrapeError, match="has speculation counters"):
        difference(parse_scrape(scrape(before)), parse_scrape(scrape(after)))


def test_different_numbers_of_draft_positions_are_two_servers() -> None:
    with pytest.raises(ScrapeError, match="4 and 2 draft positions"):
        difference(parse_scrape(scrape("ngram_before.txt")), parse_scrape(scrape("data_parallel.txt")))


def test_family_that_one_scrape_lacks_is_unknown_in_the_difference() -> None:
    assert difference(ServerCounters(decode_steps=5), ServerCounters()).decode_steps is None


def test_running_requests_include_the_waiting_ones_of_all_engines() -> None:
    text = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
    assert running_requests(text + 'vllm:num_requests_waiting{engine="1"} 4.0\n') == 7


def test_idle_server_runs_no_request() -> None:
    assert running_requests(scrape("ngram_after.txt")) == 0


def test_missing_running_gauge_is_not_taken_for_idle() -> None:
    with pytest.raises(ScrapeError, match="vllm:num_requests_running is missing"):
        running_requests(scrape("data_parallel.txt"))


def test_process_start_is_the_same_in_two_scrapes_of_one_server() -> None:
    assert process_start_unix_s(scrape("ngram_before.txt")) == process_start_unix_s(scrape("ngram_after.txt"))
    assert process_start_unix_s(scrape("ngram_before.txt")) != process_start_unix_s(scrape("baseline.txt"))


def test_process_start_is_unknown_where_the_scrape_does_not_say() -> None:
    assert process_start_unix_s(scrape("data_parallel.txt")) is None


counts = st.integers(min_value=0, max_value=10**9)


@settings(deadline=None)
@given(
    model=st.text(),
    engines=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.tuples(counts, counts, counts, st.tuples(counts, counts, counts)), min_size=n, max_size=n)
    ),
)
def test_what_a_prometheus_client_writes_is_read_back(
    model: str, engines: list[tuple[int, int, int, tuple[int, int, int]]]
) -> None:
    registry = CollectorRegistry()
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    families = [Counter(f"vllm:spec_decode_{name}", "d", ["model_name", "engine"], registry=registry) for name in names]
    per_position = Counter(
        "vllm:spec_decode_num_accepted_tokens_per_pos", "d", ["model_name", "engine", "position"], registry=registry
    )
    for engine, (*totals, positions) in enumerate(engines):
        for family, total in zip(families, totals, strict=True):
            family.labels(model, str(engine)).inc(total)
        for position, total in enumerate(positions):
            per_position.labels(model, str(engine), str(position)).inc(total)

    counters = parse_scrape(generate_latest(registry).decode())

    assert counters == ServerCounters(
        drafts=sum(engine[0] for engine in engines),
        draft_tokens=sum(engine[1] for engine in engines),
        accepted_tokens=sum(engine[2] for engine in engines),
        accepted_per_position=tuple(sum(engine[3][position] for engine in engines) for position in range(3)),
    )
