"""``pytest-specdec validate``: what it says, how it exits, and the handed cases through the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/configs/verdicts.jsonl").read_text().splitlines()
]
SALIENT: dict[str, list[str]] = {
    "not an object": ["must be an object, not an empty list"],
    "trailing comma": ["a trailing comma", r"c\.json:1:4[56]"],
    "misspelt key of ours": [
        "K is missing",
        "num_spec_tokens is unknown",
        "did you mean num_speculative_tokens",
        "1 error, 0 warnings",
    ],
    "duplicate key": ["num_speculative_tokens is given twice", "vLLM would take the last"],
    "unknown newer key": ["unknown here", "passed on"],
    "K = 0": ["must be positive"],
    "ngram, no window": [r"it becomes 5\.\.5"],
    "ngram, only max": ["min becomes 10 too, so few drafts"],
    "no method (a published recipe)": ["method: auto"],
    "synthetic without a target": ["exactly one of synthetic_acceptance_rates, synthetic_acceptance_length"],
    "old synthetic name": ["since 0.20.0", "synthetic_acceptance_length", "synthetic_acceptance_rates"],
    "old rejection name": ['since 0.22.0: "standard"'],
    "removed switch": ["gone since 0.17.0", "num_speculative_tokens_per_batch_size does this since 0.24.0"],
    "upper-case method": ["did you mean 'eagle3'"],
    "V0 key": ["use prompt_lookup_max"],
    "tensor_parallel_size": ["use draft_tensor_parallel_size"],
}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "https_proxy", "all_proxy", "VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def validate(content: Any, *arguments: str, name: str = "c.json") -> int:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return main(["validate", name, *arguments])


@pytest.mark.parametrize("version", ["0.26.0", "0.32.0"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_handed_case_is_judged_right_and_says_why(
    case: dict[str, Any], version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--", *case["server_args"]] if case["server_args"] else []
    arguments = ["--vllm-version", version, "--model", "org/target"]
    code = validate(case["text"], *arguments, *flags)
    out = capsys.readouterr().out
    assert code == (2 if case["verdict"] == "error" else 0), out
    assert (validate(case["text"], "--strict", *arguments, *flags) == 0) is (case["verdict"] == "ok")
    for words in SALIENT.get(case["name"], [re.escape(case["why"])]):
        assert re.search(words, out, re.IGNORECASE), out


def test_every_finding_has_place_key_and_remedy_and_the_last_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    config = NGRAM | {"disable_by_batch_size": 4, "max_model_len": "64"}
    assert validate(config, "--vllm-version", "0.26.0", "--model", "org/t") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error: c.json:1:98: disable_by_batch_size: is gone since 0.17.0. num_speculative")
    assert lines[-1] == "1 error, 2 warnings, 0 notes for vLLM 0.26.0"


@pytest.mark.parametrize(
    ("config", "arguments", "code"),
    [
        (NGRAM, ["--strict"], 0),
        (NGRAM | {"new": 1}, [], 0),
        (NGRAM | {"new": 1}, ["--strict"], 1),
        (NGRAM | {"max_model_len": "64"}, [], 0),
        (NGRAM | {"max_model_len": "64"}, ["--strict"], 1),
        (NGRAM | {"temperature": 1}, ["--strict"], 2),
    ],
)
def test_exit_codes(config: dict[str, Any], arguments: list[str], code: int) -> None:
    assert validate(config, "--vllm-version", "0.32.0", "--model", "org/t", *arguments) == code


def test_json_has_counts_versions_and_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(NGRAM | {"temperature": 1}, "--json", "--vllm-version", "0.32.0", "--model", "org/t") == 2
    data = json.loads(capsys.readouterr().out)
    assert (data["errors"], data["warnings"], data["notes"]) == (1, 0, 0)
    (finding,) = data["findings"]
    assert set(finding) == {"severity", "where", "what", "remedy"}
    assert finding["where"].endswith("temperature")


def test_without_a_version_that_can_be_asked_a_note_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model": "m", "speculative_config": NGRAM | {"num-speculative-tokens": 1}, "command": "env wrapper serve"}
    config["speculative_config"] = {
        "method": "eagle3",
        "model": "a/b",
        "num_speculative_tokens": 3,
        "kv_cache_dtype": "x",
    }
    assert validate(config) == 0
    out = capsys.readouterr().out
    assert "the version of vLLM is not known" in out
    assert "if vLLM is older than 0.26.0" in out


def test_a_key_that_the_installed_vllm_refuses_is_told_once_as_a_certain_warning(
    vllm_of: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model": "m", "speculative_config": NGRAM | {"promt_lookup_min": 3}, "command": vllm_of()}
    assert validate(config) == 0
    *findings, counts = capsys.readouterr().out.splitlines()
    (told,) = [line for line in findings if "promt_lookup_min" in line]
    assert told.startswith("warning: c.json:1:")
    assert "the installed vLLM 0.32.0 refuses this" in told
    assert told.endswith("Did you mean 'prompt_lookup_min'?")
    assert counts == "0 errors, 1 warning, 0 notes for vLLM 0.32.0"
    assert validate(config, "--vllm-version", "0.32.0") == 0
    assert "vLLM 0.32.0 will refuse this, unless it is newer than this table" in capsys.readouterr().out


def test_a_config_with_errors_is_not_asked_for_its_version_and_a_note_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert validate(NGRAM | {"temperature": 1}, "--model", "org/t") == 2
    assert "--vllm-version" in capsys.readouterr().out


def test_a_bare_config_without_a_target_is_looked_at_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(NGRAM, "--vllm-version", "0.32.0", "--strict") == 0
    assert "names no target" in capsys.readouterr().out


def test_several_files_are_reported_together(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text("method: EAGLE\nmodel: a/b\nnum_speculative_tokens: 3\n")
    assert validate(NGRAM | {"temperature": 1}, "a.yaml", "--vllm-version", "0.32.0", "--model", "org/t") == 2
    out = capsys.readouterr().out
    assert "a.yaml:1:1: method" in out
    assert "c.json:1:98: temperature" in out


@pytest.mark.parametrize("version", ["latest", "", "0.1.dev3+gabc"])
def test_a_version_that_is_none_is_refused(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = validate(NGRAM, "--vllm-version", version)
    captured = capsys.readouterr()
    assert code == (2 if version else 0)
    assert ("is no version of vLLM" in captured.err) is bool(version)


def test_a_version_beyond_the_tables_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.json").write_text(json.dumps(NGRAM))
    assert validate(NGRAM, "b.json", "--vllm-version", "0.35.0", "--model", "org/t") == 0
    assert capsys.readouterr().out.count("newer than the tables") == 1


def test_server_flags_behind_dashes_reach_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--vllm-version", "0.32.0", "--model", "org/t", "--", "--disable-log-stats", "--model", "x"]
    assert validate(NGRAM, *arguments) == 2
    out = capsys.readouterr().out
    assert "server flags: --disable-log-stats: removes every vllm: counter" in out
    assert "server flags: --model: must not be set here" in out
