"""Flags that the sources of the installed vLLM do not hold are errors; where the sources cannot be read, nothing is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.serving.preflight import checked_configs, version_findings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specdec.core.errors import Finding

NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}


def findings(folder: Path, command: list[str], **envelope: Any) -> list[Finding]:
    file = folder / "c.json"
    file.write_text(json.dumps({"model": "org/t", "speculative_config": NGRAM, "command": command, **envelope}))
    (config,), _ = checked_configs([file], default_model=None)
    return [found for found in version_findings(config, "0.32.0") if found.severity == "error"]


@pytest.mark.parametrize(
    ("envelope", "where", "remedy"),
    [
        ({"serve": {"max_modellen": 8}}, "serve.max_modellen", "Did you mean max_model_len?"),
        ({"serve": ["--max-modellen=8"]}, "serve", "Did you mean --max-model-len?"),
        ({"serve_specdec": {"max-num-seq-s": 8}}, "serve_specdec.max-num-seq-s", "Did you mean max_num_seqs?"),
        ({"serve": {"no_such_thing": False}}, "serve.no_such_thing", "Remove it."),
        ({"serve": {"brand_new.key": 1}}, "serve['brand_new.key']", "Remove it."),
    ],
)
def test_a_flag_that_stands_nowhere_in_the_sources_is_an_error_at_its_place(
    envelope: dict[str, Any], where: str, remedy: str, tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    (found,) = findings(tmp_path, vllm_of(), **envelope)
    assert found.where.endswith(f": {where}")
    assert "vLLM 0.32.0 has no flag --" in found.what
    assert found.remedy == remedy


@pytest.mark.parametrize(
    "serve",
    [
        {"max_model_len": 8, "max-num-seqs": 3, "served_by": "me"},
        {"no_served_by": True},
        {"max_model": 8},
        ["-tp", "2", "--max_model_len=8", "value"],
    ],
    ids=["whole", "negated", "abbreviated", "words"],
)
def test_flags_in_every_spelling_that_vllm_takes_are_fine(
    serve: Any, tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    assert findings(tmp_path, vllm_of(), serve=serve) == []


def test_words_of_the_command_and_flags_in_a_file_are_looked_at(
    tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    (tmp_path / "flags.yaml").write_text("max-modellen: 4\nmax-model-len: 4\n")
    command = [*vllm_of(), "--served-bi", "x"]
    found = findings(tmp_path, command, serve={"config": "flags.yaml"})
    told = [(one.where.rpartition(": ")[2], one.what.split()[5].rstrip(",")) for one in found]
    assert told == [("command", "--served-bi"), ("serve", "--max-modellen"), ("serve.config", "--config")]


def test_a_plugin_of_vllm_may_bring_flags(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    command = vllm_of({"its_plugin": "parser.add_argument('--brand-new')\n"})
    (found,) = findings(tmp_path, command, serve={"brand_new": 1, "no_such_thing": 1})
    assert found.where.endswith("serve.no_such_thing")


def test_behind_a_wrapper_nothing_is_said(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    assert findings(tmp_path, ["env", *vllm_of()], serve={"no_such_thing": 1}) == []


def test_where_a_plugin_has_no_sources_nothing_is_said(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    assert findings(tmp_path, vllm_of({"compiled_plugin": ""}), serve={"no_such_thing": 1}) == []


def test_where_vllm_makes_its_flags_elsewhere_nothing_is_said(
    tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    command = vllm_of(sources={"engine/arg_utils.py": ""})
    assert findings(tmp_path, command, serve={"no_such_thing": 1}) == []


def test_a_vllm_in_the_configs_folder_may_run_instead(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    command = vllm_of()
    assert len(findings(tmp_path, command, serve={"no_such_thing": 1})) == 1
    (tmp_path / "vllm").mkdir()
    assert findings(tmp_path, command, serve={"no_such_thing": 1}) == []


def test_with_a_path_of_its_own_a_config_may_run_another_vllm(
    tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    assert findings(tmp_path, vllm_of(), serve={"no_such_thing": 1}, env={"PYTHONPATH": "/elsewhere"}) == []
