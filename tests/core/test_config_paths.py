from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import SpecConfig, load_configs
from pytest_specdec.core.errors import ConfigError, Finding

if TYPE_CHECKING:
    from pathlib import Path

NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config's folder; the current folder is another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "configs").mkdir()
    return tmp_path / "configs"


def load(folder: Path, data: dict[str, Any], default_model: str | None = None) -> tuple[SpecConfig, list[Finding]]:
    (folder / "c.json").write_text(json.dumps(data))
    (config,), findings = load_configs([folder / "c.json"], default_model=default_model)
    return config, findings


def error(folder: Path, data: dict[str, Any], default_model: str | None = None) -> Finding:
    with pytest.raises(ConfigError) as raised:
        load(folder, data, default_model)
    (finding,) = raised.value.findings
    return finding


@pytest.mark.parametrize("model", ["./target", "../configs/target", "target"])
def test_a_local_model_is_passed_on_as_written_because_the_server_runs_in_the_configs_folder(
    folder: Path, model: str
) -> None:
    (folder / "target").mkdir()
    speculative = {"method": "draft_model", "model": model}
    config, _ = load(folder, {"model": model, "speculative_config": speculative})
    assert config.model == model
    assert config.speculative_config["model"] == model
    assert (config.folder / config.model).is_dir()


def test_a_hub_id_is_passed_on_as_written(folder: Path) -> None:
    config, _ = load(
        folder, {"model": "org/name", "speculative_config": {"method": "draft_model", "model": "org/draft"}}
    )
    assert (config.model, config.speculative_config["model"]) == ("org/name", "org/draft")


def test_a_home_folder_is_expanded_because_vllm_would_not(folder: Path) -> None:
    home = folder.parent / "home"
    (home / "m").mkdir(parents=True)
    config, _ = load(folder, {"model": "~/m", "speculative_config": {"method": "draft_model", "model": "~/m"}})
    assert (config.model, config.speculative_config["model"]) == (str(home / "m"), str(home / "m"))


@pytest.mark.parametrize(
    ("model", "resolved"), [("./no", "configs/no"), ("../no", "no"), ("/no/such", "/no/such"), ("~/no", "home/no")]
)
@pytest.mark.parametrize("draft", [False, True])
def test_a_path_that_leads_nowhere_is_refused_with_the_place_it_leads_to(
    folder: Path,
    model: str,
    resolved: str,
    draft: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    speculative = {"method": "draft_model", "model": model if draft else "org/draft"}
    finding = error(folder, {"model": "org/target" if draft else model, "speculative_config": speculative})
    assert finding.what == f"there is no model at {folder.parent / resolved}"
    assert finding.where.endswith(": speculative_config.model" if draft else ": model")


@pytest.mark.parametrize("model", ["--port", " "])
def test_a_model_that_is_none_is_refused(folder: Path, model: str) -> None:
    assert "is not a model" in error(folder, {"model": model, "speculative_config": NGRAM}).what


def test_the_options_model_counts_from_the_current_folder_and_stays_relative(folder: Path) -> None:
    here = folder.parent / "elsewhere"
    (here / "m").mkdir()
    config, _ = load(folder, NGRAM, default_model="./m")
    assert config.model == "../elsewhere/m"
    assert (config.folder / config.model).resolve() == here / "m"


def test_the_options_model_is_not_looked_for_in_the_configs_folder(folder: Path) -> None:
    (folder / "m").mkdir()
    finding = error(folder, NGRAM, default_model="./m")
    assert finding.what == f"there is no model at {folder.parent / 'elsewhere' / 'm'}"
    assert "--specdec-model" in finding.where


@pytest.mark.parametrize("model", ["/", "org/name"])
def test_the_options_absolute_path_or_hub_id_is_passed_on(folder: Path, model: str) -> None:
    assert load(folder, NGRAM, default_model=model)[0].model == model


def test_a_missing_workload_file_is_refused_with_the_place_it_was_looked_for(folder: Path) -> None:
    finding = error(
        folder, {"model": "m", "speculative_config": NGRAM, "workloads": {"code": {"path": "../code.jsonl"}}}
    )
    assert finding.what == f"there is no file {folder.parent / 'code.jsonl'}"
    assert finding.where.endswith("workloads.code.path")


@pytest.mark.parametrize(
    ("method", "draft", "words"),
    [
        (
            "draft_model",
            "org/EAGLE3-Llama",
            'holds the word "eagle3", and the method is draft_model: vLLM may take eagle3 instead',
        ),
        ("draft_model", "org/eagle-llama", 'the word "eagle-"'),
        ("qwen3_next_mtp", "org/x-dflash", "the method is mtp: vLLM may take dflash"),
        ("eagle", "org/Qwen3-8B_eagle3", "vLLM keeps eagle, so check"),
    ],
)
def test_a_word_in_the_drafts_path_that_means_another_method_is_warned_about(
    folder: Path, method: str, draft: str, words: str
) -> None:
    speculative = {"method": method, "model": draft, "num_speculative_tokens": 3}
    finding = next(f for f in load(folder, {"model": "m", "speculative_config": speculative})[1] if "word" in f.what)
    assert finding.severity == "warning"
    assert finding.where.endswith(": speculative_config.model")
    assert words in finding.what


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("eagle3", "org/EAGLE3-Llama"),
        ("eagle3", "eagle-heads/eagle3"),
        ("eagle3", "eagle-heads/mine"),
        ("eagle", "yuhuili/EAGLE-LLaMA3"),
        ("draft_model", "org/llama-68m"),
        ("ngram", "org/EAGLE3-Llama"),
        (None, "org/EAGLE3-Llama"),
    ],
)
def test_a_path_that_suits_the_method_is_no_warning(folder: Path, method: str | None, draft: str) -> None:
    speculative = {"model": draft, "num_speculative_tokens": 3} | ({"method": method} if method else {})
    findings = load(folder, {"model": "m", "speculative_config": speculative})[1]
    assert [finding for finding in findings if "the word" in finding.what] == []


def test_mtp_drafts_with_the_target_so_that_its_path_counts(folder: Path) -> None:
    speculative: dict[str, Any] = {"method": "mtp", "num_speculative_tokens": 1}
    _, (finding,) = load(folder, {"model": "org/eagle3-base", "speculative_config": speculative})
    assert "org/eagle3-base holds the word" in finding.what
    speculative = {"method": "suffix", "num_speculative_tokens": 8}
    assert load(folder, {"model": "org/eagle3-base", "speculative_config": speculative})[1] == []


def test_only_the_written_path_counts_and_not_the_folder_it_lies_in(folder: Path) -> None:
    home = folder / "eagle-work"
    (home / "draft").mkdir(parents=True)
    speculative = {"method": "draft_model", "model": "./draft", "num_speculative_tokens": 3}
    assert load(home, {"model": "m", "speculative_config": speculative})[1] == []


def test_a_target_that_brings_its_own_speculation_is_refused(folder: Path) -> None:
    (folder / "t").mkdir()
    (folder / "t" / "config.json").write_text('{"speculators_config": {"algorithm": "eagle3"}}')
    finding = error(folder, {"model": "./t", "speculative_config": NGRAM})
    assert "vLLM speculates unasked" in finding.what
    assert finding.where.endswith("c.json:1:2: model")
    assert "--specdec-model" in error(folder, NGRAM, default_model=str(folder / "t")).where
    (folder / "t" / "config.json").write_text('{"model_type": "llama"}')
    load(folder, {"model": "./t", "speculative_config": NGRAM})
    (folder / "t" / "config.json").write_text("[")
    load(folder, {"model": "./t", "speculative_config": NGRAM})


@pytest.mark.parametrize(
    "keys",
    [
        {"serve": {"config": "flags.yaml"}},
        {"serve": ["--config", "flags.yaml"]},
        {"serve": ["--config=flags.yaml"]},
        {"command": ["vllm", "serve", "--config", "flags.yaml"]},
    ],
)
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("speculative-config: {method: ngram}", "the baseline would speculate too"),
        ("speculative_config: {method: ngram}", "the baseline would speculate too"),
        ("disable-log-stats: true", "every vllm: counter"),
    ],
)
def test_a_file_of_flags_is_looked_into(folder: Path, keys: dict[str, Any], flags: str, words: str) -> None:
    (folder / "flags.yaml").write_text(f"max-model-len: 8192\n{flags}\n")
    finding = error(folder, {"model": "m", "speculative_config": NGRAM, **keys})
    assert words in finding.what
    assert "flags.yaml:2:1" in finding.what


def test_a_harmless_file_of_flags_is_fine(folder: Path) -> None:
    (folder / "flags.yaml").write_text("max-model-len: 8192\nport: 1\ndisable-log-stats: false\n")
    load(folder, {"model": "m", "speculative_config": NGRAM, "serve": {"config": "flags.yaml"}})


def test_a_file_of_flags_that_cannot_be_read_cannot_be_trusted(folder: Path) -> None:
    finding = error(folder, {"model": "m", "speculative_config": NGRAM, "serve": {"config": "none.yaml"}})
    assert "cannot be checked" in finding.what
