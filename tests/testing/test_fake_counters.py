"""The stand-in server's /metrics against a real page of vLLM's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_specdec.testing.counters import EngineCounters, vllm_families
from pytest_specdec.testing.exposition import Exposition, Histogram, number

if TYPE_CHECKING:
    from prometheus_client import Metric

REAL = Path(__file__).parents[1] / "data" / "metrics" / "ngram_after.txt"
NAME = "my model {v1}"
SIZED_BY_CONTEXT = ("vllm:request_generation_tokens", "vllm:request_prompt_tokens")


def page(*engines: EngineCounters, model_name: str = NAME) -> str:
    exposition = Exposition(1795972619.3995678)
    vllm_families(list(engines), model_name=model_name, asleep=False, page=exposition)
    return exposition.text()


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text) if family.name.startswith("vllm:")}


def form(family: Metric) -> dict[str, object]:
    """Everything but the values."""
    samples = {(each.name, tuple(sorted(each.labels.items()))) for each in family.samples}
    return {"type": family.type, "help": family.documentation, "samples": samples}


@pytest.mark.parametrize("name", sorted(set(families(page(EngineCounters(positions=4)))) - set(SIZED_BY_CONTEXT)))
def test_each_family_has_the_form_of_the_real_one(name: str) -> None:
    fake, real = form(families(page(EngineCounters(positions=4)))[name]), form(families(REAL.read_text())[name])
    assert fake == real


@pytest.mark.parametrize("name", SIZED_BY_CONTEXT)
def test_buckets_of_lengths_go_on_to_the_longer_context(name: str) -> None:
    fake, real = (families(text)[name] for text in (page(EngineCounters(positions=4)), REAL.read_text()))
    assert {each.labels["le"] for each in fake.samples if "le" in each.labels} == {
        *(each.labels["le"] for each in real.samples if "le" in each.labels),
        "2000.0",
        "5000.0",
    }


def test_lines_are_written_as_the_real_ones() -> None:
    """Order of labels, quoting and numbers; the engine below counted what the real one did."""
    engine = EngineCounters(positions=4, drafts=133, draft_tokens=512, accepted_tokens=290, generation_tokens=545)
    engine.accepted_per_position = [110, 70, 60, 50]
    real = set(REAL.read_text().splitlines())
    lines = [
        line
        for line in page(engine).splitlines()
        if "spec_decode" in line and "_created{" not in line and "_created " not in line
    ]
    assert len(lines) == 15
    assert set(lines) <= real


def test_every_sample_is_named_and_labelled_as_in_the_real_text() -> None:
    def samples(text: str) -> set[str]:
        return {line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("vllm:")}

    longer = {
        f'vllm:request_{which}_tokens_bucket{{engine="0",le="{le}",model_name="{NAME}"}}'
        for which in ("prompt", "generation")
        for le in ("2000.0", "5000.0")
    }
    assert samples(page(EngineCounters(positions=4))) - samples(REAL.read_text()) == longer


def test_without_speculation_there_is_no_family_of_it() -> None:
    assert not [name for name in families(page(EngineCounters())) if "spec_decode" in name]


def test_a_speculating_server_shows_its_zeros_before_any_draft() -> None:
    fake = families(page(EngineCounters(positions=2)))
    assert [sample.value for sample in fake["vllm:spec_decode_num_drafts"].samples] == [0.0]


def test_every_engine_has_its_own_samples() -> None:
    fake = families(page(EngineCounters(positions=1, drafts=5), EngineCounters(positions=1, drafts=7)))
    samples = fake["vllm:spec_decode_num_drafts"].samples
    assert {sample.labels["engine"]: sample.value for sample in samples} == {"0": 5.0, "1": 7.0}


def test_a_model_name_with_quotes_survives_a_parser() -> None:
    name = 'a "b" \\ c\nd'
    [sample] = families(page(EngineCounters(), model_name=name))["vllm:num_requests_running"].samples
    assert sample.labels["model_name"] == name


def test_a_step_without_a_draft_is_a_decode_step_only() -> None:
    engine = EngineCounters(positions=3)
    engine.count_step(delivered=1, drafted=0, accepted=0, duration_s=0.01)
    assert (engine.step.count, engine.generation_tokens, engine.drafts, engine.draft_tokens) == (1, 1, 0, 0)


def test_what_a_cut_step_accepted_counts_in_full() -> None:
    engine = EngineCounters(positions=3)
    engine.count_step(delivered=1, drafted=3, accepted=2, duration_s=0.01)
    assert (engine.generation_tokens, engine.accepted_tokens) == (1, 2)
    assert engine.accepted_per_position == [1, 1, 0]


def test_tpot_of_a_one_token_answer_is_observed_as_zero() -> None:
    engine = EngineCounters()
    engine.count_finished("stop", prompt_tokens=3, tokens=1, decode_s=0.0, e2e_s=0.1)
    assert (engine.tpot.count, engine.tpot.sum) == (1, 0.0)


def test_a_histogram_is_cumulative_and_ends_with_all() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0"), (545, "545.0"), (1795972619.3995678, "1.7959726193995678e+09"), (1e6, "1e+06")]
)
def test_numbers_are_written_as_by_the_python_client(value: float, text: str) -> None:
    assert number(value) == text
