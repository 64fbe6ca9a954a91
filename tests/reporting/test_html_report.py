"""The HTML report: complete in itself, escaped, masked, and readable without colours."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict
from pytest_specdec.reporting.palette import DARK, LIGHT, contrast
from pytest_specdec.reporting.result_file import read_result
from tests.core.comparison_builder import build_comparison

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
etree = pytest.importorskip("lxml.etree")

from pytest_specdec.reporting.html import html  # noqa: E402 - after the check that it can be imported
from pytest_specdec.reporting.report_view import scale_of  # noqa: E402 - as above

SAVED = Path(__file__).parents[1] / "data" / "results" / "schema_1.json"


@pytest.fixture(scope="module")
def saved() -> ResultDocument:
    return read_result(SAVED)


@pytest.fixture(scope="module")
def page(saved: ResultDocument) -> str:
    return html(saved)


@pytest.fixture(scope="module")
def tree(page: str) -> Any:
    return etree.HTML(page)


def test_page_loads_nothing(tree: Any) -> None:
    loading = tree.xpath(
        "//script | //link | //iframe | //img | //object | //image | //*[@src] | //*[starts-with(@href, 'http')]"
    )
    assert loading == []
    style = "".join(tree.xpath("//style/text()"))
    assert "url(" not in style
    assert "@import" not in style


def test_verdict_comes_first(tree: Any) -> None:
    assert (
        " ".join(tree.xpath("string(//h1)").split())
        == "ERROR Speculative decoding: 1 of 2 gates could not be measured, 1 missed"
    )


def test_every_verdict_is_a_word(tree: Any) -> None:
    assert tree.xpath("//td[@data-label='verdict']/span/text()") == ["FAIL", "FAIL", "ok", "unsure"]


def test_every_picture_says_what_it_shows(tree: Any) -> None:
    pictures = tree.xpath("//svg")
    assert len(pictures) == 4 + 3
    assert all(picture.get("role") == "img" and len(picture.get("aria-label")) > 20 for picture in pictures)


def test_no_two_elements_share_an_id(tree: Any) -> None:
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))


def test_every_link_within_the_page_leads_somewhere(tree: Any) -> None:
    links = tree.xpath("//a/@href")
    assert links
    assert {link.removeprefix("#") for link in links} <= set(tree.xpath("//@id"))


def test_charts_have_no_colour_of_their_own(page: str) -> None:
    charts = "".join(re.findall(r"<figure>.*?</figure>", page, re.DOTALL))
    assert "var(--spec)" in charts
    assert re.findall(r"#[0-9a-f]{6}\b", charts) == []


def test_page_says_how_it_was_measured(tree: Any) -> None:
    names = tree.xpath("//dt/text()")
    assert {"load", "sampling", "workload", "device", "specdec, launch 1", "specdec, launch 1: command"} <= set(names)


def test_text_of_others_is_escaped() -> None:
    bad = GateRecord("t.py::test_x[<script>alert(1)</script>]", "a", "error", message="<img src=x>")
    page = html(ResultDocument(created_unix_s=1.8e9, environment={}, comparisons={}, gates=(bad,)))
    assert "<script" not in page
    assert "<img" not in page


def test_secrets_are_masked() -> None:
    bad = GateRecord(
        "t.py::test_x", "a", "error", message="wrong key topsecretvalue, Authorization: Bearer abcdefgh1234"
    )
    page = html(ResultDocument(created_unix_s=1.8e9, environment={}, comparisons={}, gates=(bad,)), ["topsecretvalue"])
    assert "topsecretvalue" not in page
    assert "abcdefgh1234" not in page


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("background", ["paper", "card"])
def test_every_colour_can_be_read(colours: dict[str, str], background: str) -> None:
    text = {
        name: contrast(colours[name], colours[background]) for name in colours if name not in ("paper", "card", "line")
    }
    assert min(text.values()) >= 4.5
    assert contrast(colours["line"], colours[background]) >= 2.5


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_gain_against_load_is_drawn_where_there_are_several_loads() -> None:
    comparisons = {
        f"eagle3/chat#{load}": build_comparison(
            tpot_spec_ms=spec_ms, load=LoadSpec(concurrency=load, num_requests=16, max_tokens=33), noise=0.02
        )
        for load, spec_ms in ((1, 6.0), (4, 8.0), (16, 12.0))
    }
    page = html(ResultDocument(created_unix_s=1.8e9, environment={}, comparisons=comparisons, gates=()))
    assert "Gain against load: eagle3, chat" in page
    assert re.search(r"40\.\d % at 1, 20\.\d % at 4, -19\.\d % at 16; gone at about 8", page)


def verdict(
    required: float, value: float, low: float | None, high: float | None, level: float | None = 0.95
) -> Verdict:
    return Verdict(Requirement("tpot_gain", required), Estimate(value, low, high, level), "ok", "higher", "fraction")


def ranked_page(*tpot_ms: float, names: tuple[str, ...] = ("eagle3", "ngram")) -> Any:
    """Configs with these times per token, measured against one baseline."""
    built = (
        build_comparison(tpot_spec_ms=tpot, noise=0.05, prompt_spread=0.05, seed=place)
        for place, tpot in enumerate(tpot_ms)
    )
    comparisons = {name: replace(one, config_id=name, method=name) for name, one in zip(names, built, strict=True)}
    return etree.HTML(html(ResultDocument(created_unix_s=1.8e9, environment={}, comparisons=comparisons, gates=())))


def ranking_of(tree: Any) -> tuple[str, list[str]]:
    """The words below the chart of the ranking, and those in it."""
    (figure,) = tree.xpath("//h2[text()='Configs ranked by speed per token']/..//figure")
    return figure.xpath("string(p)"), ["".join(one.itertext()) for one in figure.xpath(".//*[local-name()='text']")]


def test_several_configs_are_drawn_on_one_axis_with_their_winner() -> None:
    below, drawn = ranking_of(ranked_page(9.0, 6.0))
    assert [word for word in drawn if "eagle3" in word or "ngram" in word] == ["ngram, winner", "eagle3"]
    assert re.match(r"ngram 41\.\d % \([\d.]+ \.\. [\d.]+ %\), eagle3 \d+\.\d % \(.*\); winner: ngram: ", below)


def test_no_winner_is_drawn_where_the_ranking_names_none() -> None:
    below, drawn = ranking_of(ranked_page(7.0, 7.0))
    assert [word for word in drawn if "winner" in word] == []
    assert "; no winner: " in below


def test_a_config_without_a_gain_is_named_below_the_ranking() -> None:
    names = ("eagle3", "ngram")
    one, other = (
        replace(build_comparison(tokens=tokens), config_id=name) for name, tokens in zip(names, (33, 1), strict=True)
    )
    other = replace(other, load=one.load)
    document = ResultDocument(
        created_unix_s=1.8e9, environment={}, comparisons=dict(zip(names, (one, other), strict=True)), gates=()
    )
    below, drawn = ranking_of(etree.HTML(html(document)))
    assert "; ngram is not ranked: " in below
    assert [word for word in drawn if "ngram" in word] == []


def test_a_long_name_is_cut_in_the_picture_alone() -> None:
    long = "a-name-of-a-config-that-nobody-would-ever-like-to-type"
    below, drawn = ranking_of(ranked_page(9.0, 6.0, names=("eagle3", long)))
    assert f"{long[:37]}..., winner" in drawn
    assert long in below


def test_one_config_has_no_ranking(tree: Any) -> None:
    assert tree.xpath("//h2[contains(text(), 'ranked')]") == []


def test_interval_is_drawn_in_its_order() -> None:
    scale = scale_of(verdict(0.1, 0.2, 0.15, 0.3))
    assert 0 < scale.required < scale.low < scale.value < scale.high < 100


def test_open_interval_reaches_the_edge() -> None:
    scale = scale_of(verdict(0.1, 0.2, 0.15, None))
    assert (scale.high, scale.open_high, scale.open_low) == (100.0, True, False)


def test_fact_is_a_point() -> None:
    scale = scale_of(verdict(5, 4, None, None, level=None))
    assert (scale.low, scale.high, scale.open_low) == (scale.value, scale.value, False)


def test_measurement_without_samples_has_a_page(saved: ResultDocument) -> None:
    comparison = saved.comparisons["eagle3/chat"]
    empty = replace(comparison, runs=tuple(replace(run, samples=()) for run in comparison.runs))
    assert "eagle3/chat" in html(replace(saved, comparisons={"eagle3/chat": empty}))
