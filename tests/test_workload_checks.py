"""Prompts that the target cannot take are told before a launch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.commands.workload_findings import workload_findings
from pytest_specdec.core.config import load_configs
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.load.prompt_reader import Prompt
from pytest_specdec.workload_checks import refuse_unsendable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

CHAT = {"messages": [{"role": "user", "content": "one two three four five six seven eight"}]}


def config(folder: Path, *lines: dict[str, Any], **envelope: Any) -> SpecConfig:
    (folder / "w.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = {
        "model": "./target",
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
        "workloads": {"w": {"path": "w.jsonl"}},
        **envelope,
    }
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "config.json").write_text('{"model_type": "llama"}')
    (folder / "c.json").write_text(json.dumps(data))
    return load_configs([folder / "c.json"], default_model=None)[0][0]


def found(config: SpecConfig) -> list[str]:
    return [str(finding) for finding in workload_findings(config)]


def test_a_prompt_of_more_words_than_the_model_takes_tokens_is_told(tmp_path: Path) -> None:
    (finding,) = found(config(tmp_path, CHAT, serve={"max_model_len": 7}))
    assert "workloads.w.path: max_model_len is 7, and a prompt has at least 8 tokens (its words)" in finding
    assert found(config(tmp_path, CHAT, serve={"max_model_len": 8})) == []


def test_the_answer_counts_too(tmp_path: Path) -> None:
    (finding,) = found(config(tmp_path, CHAT | {"max_tokens": 5}, serve=["--max-model-len", "12"]))
    assert "and up to 5 tokens are asked for" in finding


def test_before_a_launch_the_max_tokens_of_the_load_counts(tmp_path: Path) -> None:
    prompts = [Prompt(index=0, prompt="one two")]
    limited = config(tmp_path, CHAT, serve={"max_model_len": 100})
    refuse_unsendable(limited, prompts, workload="w", max_tokens=98)
    with pytest.raises(CannotMeasure, match=r"c\.json, workload w: max_model_len is 100"):
        refuse_unsendable(limited, prompts, workload="w", max_tokens=99)


def test_chats_need_a_template(tmp_path: Path) -> None:
    chats = config(tmp_path, CHAT)
    (tmp_path / "target" / "tokenizer_config.json").write_text("{}")
    (finding,) = found(chats)
    assert "its lines are chats, and the tokenizer of ./target has no chat template" in finding
    assert found(config(tmp_path, {"prompt": "a"})) == []
    assert found(config(tmp_path, CHAT, serve={"chat_template": "t.jinja"})) == []
