"""Windows read from a real Prometheus, and from what is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement, SpecDecError
from pytest_specdec.serving.prometheus_api import PrometheusApi, matchers, window_seconds
from tests.live_prometheus import END_S, exposition, needs_prometheus, server, with_series

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusApi]:
    text = exposition(
        server('instance="a",version="old",model_name="m"', speculating=False),
        server('instance="b",version="new",model_name="m"', speculating=True),
        server('instance="c",version="new",model_name="m"', speculating=True),
        server('instance="d",version="shaky",model_name="m"', speculating=True, reset_at=60),
    )
    with with_series(tmp_path_factory.mktemp("prometheus"), text) as url:
        yield PrometheusApi(url)


@needs_prometheus
def test_window_adds_up_all_servers_of_an_arm(api: PrometheusApi) -> None:
    window = api.window('{version="old"}', 'version="new"', 1800, end_unix_s=END_S)
    base, spec = window.baseline, window.specdec
    # Over 120 scrape intervals, of one server and of two.
    assert (base.total("generation_tokens"), spec.total("generation_tokens")) == (12_000, 24_000)
    assert (spec.total("drafts"), spec.total("accepted_tokens"), spec.total("draft_tokens")) == (9600, 12_000, 19_200)
    assert spec.positions is not None
    assert spec.positions.sum(axis=0).tolist() == [7200, 4800]
    assert (spec.total("finished_requests"), spec.total("errors")) == (2400, 240)
    assert "drafts" not in base.counts
    assert (spec.restarts, spec.models) == (0, frozenset({"m"}))
    tpot = spec.histograms["tpot"]
    assert tpot.bounds_s == (0.01, 0.025, math.inf)
    assert tpot.counts.sum(axis=0).tolist() == [0, 1920, 480]
    assert tpot.sums_s.sum() == pytest.approx(48.0)
    assert spec.counts["drafts"].tolist() == [800] * 12


@needs_prometheus
def test_restart_is_seen_and_nothing_becomes_negative(api: PrometheusApi) -> None:
    window = api.window('{version="old"}', '{version="shaky"}', 1800, end_unix_s=END_S)
    assert window.specdec.restarts == 1
    assert window.specdec.counts["generation_tokens"].min() >= 0


@needs_prometheus
@pytest.mark.parametrize(
    ("baseline", "specdec", "error", "said"),
    [
        ('{version="none"}', '{version="new"}', CannotMeasure, 'no vLLM server has the labels {version="none"}'),
        ('{version=~"old|new"}', '{version="new"}', InvalidMeasurement, "both selectors choose the same server"),
        ('{version="old}', '{version="new"}', CannotMeasure, "Prometheus refused the query: .*parse error"),
    ],
)
def test_selectors_that_choose_wrongly(
    api: PrometheusApi, baseline: str, specdec: str, error: type[SpecDecError], said: str
) -> None:
    with pytest.raises(error, match=said):
        api.window(baseline, specdec, 1800, end_unix_s=END_S)


def test_nobody_at_the_address() -> None:
    with pytest.raises(CannotMeasure, match="Prometheus did not answer"):
        PrometheusApi("http://127.0.0.1:1").window('{a="b"}', '{a="c"}', 60)
    with pytest.raises(CannotMeasure, match="Prometheus did not answer"):
        PrometheusApi("no address").window('{a="b"}', '{a="c"}', 60)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("6h", 21_600), ("1d", 86_400)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "0s", "-1h", "1.5h", "1h30m"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(SpecDecError, match="is no length of time"):
        window_seconds(text)


@pytest.mark.parametrize("text", ["", "{}", "canary", "{canary}", "vllm:x"])
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(SpecDecError, match="is no label selector"):
        matchers(text)
