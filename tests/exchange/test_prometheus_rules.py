"""PromQL gives the figures of the canary's gate; rules are what promtool accepts, and alert when they should."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

import pytest
import yaml

from pytest_specdec.core.live_judging import judge_live, live_objectives
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement
from pytest_specdec.exchange.prometheus_rules import Watched, dashboard, rules
from pytest_specdec.exchange.promql import Queries, recorded_name
from pytest_specdec.serving.prometheus_api import PrometheusApi
from tests.live_prometheus import END_S, exposition, needs_prometheus, server, with_series

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERIES = Queries('version="old"', 'version="new"', "30m")
ALL = [Requirement(name, 0.5, "1" if name == "min_acceptance_at" else None) for name in live_objectives()]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    text = exposition(
        server('instance="a",version="old",model_name="m"', speculating=False),
        server('instance="b",version="new",model_name="m"', speculating=True),
    )
    with with_series(tmp_path_factory.mktemp("prometheus"), text) as address:
        yield address


def asked(url: str, query: str) -> float:
    parameters = urllib.parse.urlencode({"query": query, "time": END_S})
    with urllib.request.urlopen(f"{url}/api/v1/query?{parameters}", timeout=30) as answer:  # noqa: S310 - loopback
        (row,) = json.load(answer)["data"]["result"]
    return float(row["value"][1])


@needs_prometheus
@pytest.mark.parametrize("requirement", ALL, ids=lambda one: one.label)
def test_query_gives_the_figure_of_the_gate(url: str, requirement: Requirement) -> None:
    window = PrometheusApi(url).window('version="old"', 'version="new"', 1800, end_unix_s=END_S)
    query = QUERIES.of(requirement)
    assert query is not None
    (verdict,) = judge_live(window, [requirement], confidence=0.95)
    assert asked(url, query) == pytest.approx(verdict.estimate.value, rel=1e-6, abs=1e-9)


def test_everything_that_a_canary_is_judged_by_can_be_watched() -> None:
    told = {name for name in REGISTRY if QUERIES.of(Requirement(name, 0.5, "0")) is not None}
    assert told == set(live_objectives())


def watched(*sources: str) -> list[Watched]:
    return [Watched(one, sources or ("test_a.py::test_a[{{x}}]",)) for one in ALL]


def write(folder: Path, content: object, name: str = "rules.yml") -> None:
    (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))


def promtool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@needs_prometheus
def test_rules_are_accepted(tmp_path: Path) -> None:
    write(tmp_path, rules(watched(), QUERIES))
    done = promtool(tmp_path, "check", "rules", "rules.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(ALL) + 2} rules found" in done.stdout


@needs_prometheus
@pytest.mark.parametrize(("accepted", "fires"), [(20, True), (60, False)])
def test_alert_fires_when_the_objective_is_missed(tmp_path: Path, accepted: int, fires: bool) -> None:  # noqa: FBT001 - a case
    queries = Queries('version="old"', 'version="new"', "5m")
    requirement = Requirement("min_acceptance_length", 1.5)
    write(tmp_path, rules([Watched(requirement, ("t",))], queries))
    expected = {
        "exp_labels": {"severity": "warning", "objective": "min_acceptance_length", "required": "1.5"},
        "exp_annotations": {
            "summary": f"min_acceptance_length is {1 + accepted / 100:g}, below 1.5",
            "description": f"{REGISTRY['min_acceptance_length'].summary}. Declared by t.",
        },
    }
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'vllm:spec_decode_num_{name}_total{{version="new"}}', "values": f"0+{rate}x60"}
            for name, rate in (("drafts", 100), ("accepted_tokens", accepted))
        ],
        "alert_rule_test": [
            {"eval_time": "30m", "alertname": "SpecdecMinAcceptanceLength", "exp_alerts": [expected] if fires else []}
        ],
    }
    write(tmp_path, {"rule_files": ["rules.yml"], "tests": [test]}, "test.yml")
    done = promtool(tmp_path, "test", "rules", "test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
@pytest.mark.parametrize(
    ("series", "alert"),
    [
        ({"generation_tokens": "0+10x20 0+10x40"}, "SpecdecServerRestarted"),
        ({"request_success": "0+10x60"}, "SpecdecSpeculationGone"),
        ({"request_success": "0+10x60", "spec_decode_num_drafts": "0+0x60"}, "SpecdecSpeculationGone"),
        ({"request_success": "0+10x60", "spec_decode_num_drafts": "0+5x60"}, ""),
    ],
)
def test_alerts_that_need_no_objective(tmp_path: Path, series: dict[str, str], alert: str) -> None:
    write(tmp_path, rules([], Queries('version="old"', 'version="new"', "10m")))
    names = ("SpecdecServerRestarted", "SpecdecSpeculationGone")
    queries = [
        {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', "eval_time": "25m"} for name in names
    ]
    tests = {
        "interval": "1m",
        "input_series": [
            {"series": f'vllm:{name}_total{{version="new"}}', "values": values} for name, values in series.items()
        ],
        "promql_expr_test": [
            query | {"exp_samples": [{"value": 1}] if name == alert else []}
            for name, query in zip(names, queries, strict=True)
        ],
    }
    write(tmp_path, {"rule_files": ["rules.yml"], "tests": [tests]}, "test.yml")
    done = promtool(tmp_path, "test", "rules", "test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_has_a_panel_per_objective_with_its_limits() -> None:
    two = [*watched(), Watched(Requirement("min_acceptance_length", 0.7), ("other",))]
    board = dashboard(two, QUERIES)
    assert json.loads(json.dumps(board)) == board
    panels = {panel["title"]: panel for panel in board["panels"]}
    assert set(panels) == {one.label for one in ALL} | {"TPOT of both arms", "TTFT of both arms"}
    length = panels["min_acceptance_length"]
    assert length["targets"][0]["expr"] == recorded_name(Requirement("min_acceptance_length", 0.5))
    steps = length["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in steps] == [(None, "red"), (0.5, "orange"), (0.7, "green")]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in board["panels"]}) == len(places)
