"""Where a workload's name leads, and what the config's entry says about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import SpecConfig, load_configs
from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.workload_search import FoundWorkload, find_workload, read_found

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs.csv").write_text("prompt\na\n")
    return tmp_path


def config(folder: Path, **workloads: dict[str, Any]) -> SpecConfig:
    data = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}, "workloads": workloads}
    (folder / "c.json").write_text(json.dumps(data))
    (loaded,), _ = load_configs([folder / "c.json"], default_model="m")
    return loaded


def found(name: str, folder: Path, ini: Mapping[str, Path] | None = None, **workloads: dict[str, Any]) -> FoundWorkload:
    return find_workload(name, config=config(folder, **workloads), ini=ini or {}, test_dir=folder)


def test_an_entry_of_the_config_comes_with_its_options(folder: Path) -> None:
    entry = {"path": "logs.csv", "sample": 3, "seed": 1}
    assert found("chat", folder, chat=entry) == FoundWorkload(folder / "logs.csv", WorkloadOptions(sample=3, seed=1))


def test_the_ini_option_is_a_path_alone(folder: Path) -> None:
    assert found("chat", folder, ini={"chat": folder / "ini.jsonl"}) == FoundWorkload(folder / "ini.jsonl")


def test_a_file_beside_the_test_wins_over_a_bundled_workload(folder: Path) -> None:
    (folder / "chat").write_text("")
    assert found("chat", folder).path == folder / "chat"


def test_a_folder_beside_the_test_does_not_hide_a_bundled_workload(folder: Path) -> None:
    (folder / "chat").mkdir()
    assert found("chat", folder).path.name == "chat.jsonl"


def test_a_folder_of_another_name_is_a_workload(folder: Path) -> None:
    (folder / "speed").mkdir()
    assert found("speed", folder) == FoundWorkload(folder / "speed")


def test_an_unknown_name_lists_what_there_is(folder: Path) -> None:
    with pytest.raises(WorkloadError, match="no workload is called 'chatt'; did you mean 'chat'") as refused:
        found("chatt", folder, logs={"path": "logs.csv"})
    assert "Known here: chat, code, logs, structured, summary." in str(refused.value)


def classes(
    name: str, folder: Path, **workloads: dict[str, Any]
) -> tuple[dict[str, float] | None, dict[str, float] | None]:
    """Shares of the requests and of the traffic."""
    workload = read_found(name, found(name, folder, **workloads))
    assert {prompt.category for prompt in workload.prompts} == set(workload.mix or {})
    return dict(workload.mix or {}), dict(workload.weights) if workload.weights else None


LOGS: dict[str, Any] = {"path": "logs.csv"}


def test_a_list_of_workloads_has_equal_parts_and_the_weights_of_the_config(folder: Path) -> None:
    entries = {"code": LOGS | {"weight": 0.75}, "chat": LOGS | {"weight": 0.25}}
    assert classes("code + chat", folder, **entries) == ({"code": 0.5, "chat": 0.5}, {"code": 0.75, "chat": 0.25})


def test_weights_of_some_are_scaled_up(folder: Path) -> None:
    entries = {name: LOGS | {"weight": weight} for name, weight in (("a", 0.5), ("b", 0.3), ("c", 0.2))}
    assert classes("b + c", folder, **entries)[1] == {"b": 0.6, "c": 0.4}


def test_without_weights_nothing_is_said_about_the_traffic(folder: Path) -> None:
    assert classes("code + chat", folder) == ({"code": 0.5, "chat": 0.5}, None)


def test_shares_of_the_mark_are_those_of_requests_and_traffic_whatever_the_config_says(folder: Path) -> None:
    shares = {"code": 0.6, "chat": 0.4}
    entries = {"code": LOGS | {"weight": 0.1}, "chat": LOGS | {"weight": 0.9}}
    assert classes("code=0.6 + chat=0.4", folder, **entries) == (shares, shares)


def test_mix_is_all_workloads_of_the_config_by_weight(folder: Path) -> None:
    entries = {"code": LOGS | {"weight": 0.75}, "chat": LOGS | {"weight": 0.25}}
    assert classes("mix", folder, **entries) == ({"code": 0.75, "chat": 0.25},) * 2


def test_an_entry_called_mix_is_a_workload_like_any_other(folder: Path) -> None:
    assert found("mix", folder, mix=LOGS) == FoundWorkload(folder / "logs.csv", WorkloadOptions())


def test_mix_without_weights_says_what_is_missing(folder: Path) -> None:
    with pytest.raises(WorkloadError, match="has none") as raised:
        found("mix", folder, code=LOGS)
    assert "`weight`" in raised.value.remedy


def test_an_unknown_part_of_a_mix_is_named_with_the_likely_one(folder: Path) -> None:
    with pytest.raises(WorkloadError, match="no workload is called 'kode'; did you mean 'code'"):
        found("kode + chat", folder)


def test_a_file_of_a_similar_name_beside_the_test_is_suggested(folder: Path) -> None:
    with pytest.raises(WorkloadError, match=r"did you mean 'logs\.csv'\?"):
        found("log.csv", folder)
