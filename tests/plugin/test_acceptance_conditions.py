"""Which workloads and loads the acceptance procedure measures, from settings, configs and machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.acceptance.conditions import BUNDLED, conditions
from pytest_specdec.core.config import SpecConfig, load_configs
from pytest_specdec.core.procedure import Procedure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., SpecConfig]:
    def make(name: str = "a", **envelope: Any) -> SpecConfig:
        for workload in ("code", "chat", "sql"):
            (tmp_path / f"{workload}.jsonl").write_text('{"prompt": "Hello"}\n')
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"model": "target", "speculative_config": NGRAM} | envelope))
        configs, _ = load_configs([path], default_model=None)
        return configs[0]

    return make


def workloads(*names: str) -> dict[str, dict[str, str]]:
    return {name: {"path": f"{name}.jsonl"} for name in names}


def test_without_a_gpu_loads_are_small_and_rounds_are_few(make_config: Callable[..., SpecConfig]) -> None:
    found = conditions(Procedure(), [make_config()], gpu=False)
    assert (found.workloads, found.traffic) == (BUNDLED, "chat")
    sizes = {"max_tokens": 32, "rounds": 4, "max_rounds": 4}
    assert found.points == {
        "low": {"concurrency": 1, "num_requests": 12, **sizes},
        "high": {"concurrency": 4, "num_requests": 16, **sizes},
    }


def test_with_a_gpu_high_load_keeps_it_busy_for_long_enough(make_config: Callable[..., SpecConfig]) -> None:
    found = conditions(Procedure(), [make_config()], gpu=True)
    assert found.points["high"] == {"concurrency": 32, "num_requests": 128, "max_tokens": 128}


def test_settings_win(make_config: Callable[..., SpecConfig]) -> None:
    procedure = Procedure(workloads=("sql", "code"), high=64, requests=8, tpot_gain=0.1)
    found = conditions(procedure, [make_config(load={"high": {"concurrency": 3}})], gpu=True)
    assert (found.workloads, found.traffic) == (("sql", "code"), "sql")
    assert found.points["high"]["concurrency"] == 64
    assert found.points["high"]["num_requests"] == 256
    assert found.objectives == {"low": {"tpot_gain": 0.1}, "high": {"throughput_gain": 0.0}}


def test_workloads_that_every_config_has_are_the_traffic(make_config: Callable[..., SpecConfig]) -> None:
    one, other = (
        make_config("a", workloads=workloads("sql", "chat")),
        make_config("b", workloads=workloads("sql", "code")),
    )
    assert conditions(Procedure(), [one], gpu=False).traffic == "chat"
    found = conditions(Procedure(), [one, other], gpu=False)
    assert (found.workloads, found.traffic) == (("sql",), "sql")


def test_a_load_point_counts_only_where_every_config_has_it(make_config: Callable[..., SpecConfig]) -> None:
    one, other = make_config("a", load={"high": {"concurrency": 8, "num_requests": 99}}), make_config("b")
    alone = conditions(Procedure(), [one], gpu=False)
    assert alone.points["high"] == {"load": "high", "rounds": 4, "max_rounds": 4, "max_tokens": 32}
    both = conditions(Procedure(), [one, other], gpu=False)
    assert both.points["high"]["concurrency"] == 4
    assert any("not every config has that load point" in note for note in both.notes)


def test_at_a_request_rate_answers_must_not_become_slower(make_config: Callable[..., SpecConfig]) -> None:
    config = make_config(load={"high": {"request_rate": 5, "num_requests": 50}})
    assert conditions(Procedure(), [config], gpu=False).objectives["high"] == {"tpot_gain": 0.0}


def test_floors_stand_for_a_workload_or_a_class_of_it(make_config: Callable[..., SpecConfig]) -> None:
    floors = {"code": 2.0, "logs/chat.jsonl/refund": 1.8, "cod": 3.0, "sql/x": 4.0}
    procedure = Procedure(workloads=("code", "logs/chat.jsonl"), class_acceptance_length=floors)
    found = conditions(procedure, [make_config()], gpu=False)
    assert found.floors("code") == {"min_acceptance_length": 2.0}
    assert found.floors("logs/chat.jsonl") == {
        "min_acceptance_length": 1.5,
        "min_class_acceptance_length": {"refund": 1.8},
    }
    assert found.floors_of_nothing() == ["cod", "sql/x"]
