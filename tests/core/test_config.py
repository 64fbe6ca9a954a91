from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specdec.core.config import SpecConfig, load_configs, read_configs
from pytest_specdec.core.config_schema import KEYS
from pytest_specdec.core.errors import ConfigError, Finding
from pytest_specdec.core.load_spec import LOAD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES = [
    json.loads(line) for line in (Path(__file__).parent.parent / "data/configs/verdicts.jsonl").read_text().splitlines()
]
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
ENVELOPE = {"model": "org/target", "speculative_config": NGRAM}


class Load(Protocol):
    def __call__(self, data: Mapping[str, Any], *, default_model: str | None = None) -> SpecConfig: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def load(folder: Path) -> Load:
    def write_and_load(data: Mapping[str, Any], *, default_model: str | None = None) -> SpecConfig:
        (folder / "c.json").write_text(json.dumps(data))
        (config,), findings = load_configs(["c.json"], default_model=default_model)
        assert [finding for finding in findings if finding.severity != "note"] == []
        return config

    return write_and_load


def errors(*paths: str | Path, default_model: str | None = "org/target") -> list[Finding]:
    with pytest.raises(ConfigError) as raised:
        load_configs(paths, default_model=default_model)
    return raised.value.findings


def test_a_bare_config_takes_its_target_from_the_option(load: Load) -> None:
    config = load(NGRAM, default_model="org/target")
    assert (config.id, config.model, config.speculative_config) == ("c", "org/target", NGRAM)


def test_a_bare_config_without_target_names_all_three_ways_out(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps(NGRAM))
    (finding,) = errors("c.json", default_model=None)
    assert finding.where == "c.json"
    assert all(way in finding.remedy for way in ("--specdec-model", "specdec_model", "`model`"))


def test_in_a_bare_config_model_is_the_draft(load: Load) -> None:
    config = load({"model": "org/draft", "num_speculative_tokens": 3}, default_model="org/target")
    assert config.model == "org/target"
    assert config.speculative_config["model"] == "org/draft"


def test_an_envelopes_own_target_wins_over_the_option(load: Load) -> None:
    assert load(ENVELOPE, default_model="org/other").model == "org/target"


def test_an_envelope_may_leave_the_target_to_the_option(load: Load) -> None:
    assert load({"speculative_config": NGRAM}, default_model="org/other").model == "org/other"


def test_the_command_lines_spelling_is_accepted(load: Load) -> None:
    config = load({"model": "org/target", "speculative-config": NGRAM})
    assert config.speculative_config == NGRAM
    assert config.where("speculative_config.method") == "c.json:1:48: speculative-config.method"


def test_every_key_of_an_envelope_arrives(folder: Path) -> None:
    (folder / "code.jsonl").write_text("")
    (folder / "full.yaml").write_text("""
model: org/target
speculative_config: {method: eagle3, model: org/draft, num_speculative_tokens: 2}
serve: {tensor_parallel_size: 2}
serve_specdec: [--max-num-seqs, "64"]
command: vllm "serve"
env: {VLLM_LOGGING_LEVEL: DEBUG, VLLM_CPU_KVCACHE_SPACE: 2}
placement: split
workloads: {code: {path: code.jsonl, weight: 1, max_tokens: 256}}
load: {low: {request_rate: 1, max_tokens: 64}, high: {concurrency: 32, workload: code}}
measure: {rounds: 4, max_rounds: 12, confidence: 0.95, budget_s: 900, allow: [synthetic]}
devices: {baseline: [0, 1], specdec: [2, 3]}
stop_command: [sh, -c, "true"]
startup_timeout_s: 60
""")
    (config,), findings = load_configs([folder / "full.yaml"], default_model=None)
    assert findings == []
    assert config.serve == {"tensor_parallel_size": 2}
    assert config.serve_specdec == ["--max-num-seqs", "64"]
    assert config.command == ("vllm", "serve")
    assert config.env == {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_CPU_KVCACHE_SPACE": "2"}
    assert config.placement == "split"
    entry = config.workloads["code"]
    assert (entry.path, entry.weight, entry.max_tokens) == (folder / "code.jsonl", 1, 256)
    assert config.load["low"].load_fields() == {"request_rate": 1, "max_tokens": 64}
    assert config.load["high"].load_fields() == {"concurrency": 32, "workload": "code"}
    assert config.measure.load_fields() == {"rounds": 4, "max_rounds": 12, "confidence": 0.95, "budget_s": 900}
    assert config.measure.allow == ("synthetic",)
    assert config.devices is not None
    assert (config.devices.baseline, config.devices.specdec) == ((0, 1), (2, 3))
    assert config.stop_command == ("sh", "-c", "true")
    assert config.startup_timeout_s == 60
    assert (config.folder, config.path) == (folder, folder / "full.yaml")


def test_a_config_cannot_be_changed_afterwards(load: Load) -> None:
    config = load(ENVELOPE)
    with pytest.raises(ValidationError, match="frozen"):
        config.model = "org/other"


@pytest.mark.parametrize(
    ("speculative", "method", "k"),
    [
        (NGRAM, "ngram", 4),
        ({"method": "suffix"}, "suffix", None),
        ({"model": "org/draft", "num_speculative_tokens": "3"}, None, 3),
        ({"method": "qwen3_next_mtp", "num_speculative_tokens": 2.0}, "mtp", 2),
        ({"method": "ngram", "num-speculative-tokens": 5}, "ngram", 5),
        ({"method": "ngram", "num_speculative_tokens": True}, "ngram", None),
        ({"method": "ngram", "num_speculative_tokens": 2.5}, "ngram", None),
        ({"method": ["ngram"], "num_speculative_tokens": "many"}, None, None),
    ],
)
def test_method_and_k_are_what_the_config_states(
    speculative: dict[str, Any], method: str | None, k: int | None
) -> None:
    config = SpecConfig(id="x", path=Path("/c/x.json"), model="m", speculative_config=speculative)
    assert (config.method, config.num_speculative_tokens) == (method, k)


@pytest.mark.parametrize("name", ["null", "not an object", "Python dict", "trailing comma", "duplicate key"])
def test_the_handed_texts_that_are_no_config_are_refused_for_the_right_reason(folder: Path, name: str) -> None:
    (case,) = [case for case in CASES if case["name"] == name]
    (folder / "c.json").write_text(case["text"])
    text = " ".join(map(str, errors("c.json")))
    expected = {
        "trailing comma": "c.json:1:45: a trailing comma",
        "duplicate key": "num_speculative_tokens is given twice, first at line 1, column 19; vLLM would take the last",
        "not an object": "must be an object",
    }
    assert expected.get(name, case["why"]) in text


@pytest.mark.parametrize("name", [case["name"] for case in CASES if case["server_args"]])
def test_the_handed_server_flags_are_judged_right(folder: Path, name: str) -> None:
    (case,) = [case for case in CASES if case["name"] == name]
    data = {"model": "org/t", "speculative_config": json.loads(case["text"]), "serve": case["server_args"]}
    (folder / "c.json").write_text(json.dumps(data))
    if case["verdict"] == "error":
        assert any(
            case["why"] in finding.what and finding.where.startswith("c.json:1:") for finding in errors("c.json")
        )
    else:
        load_configs(["c.json"], default_model=None)


def test_the_handed_byte_order_mark_is_accepted(folder: Path) -> None:
    (case,) = [case for case in CASES if case["name"] == "byte-order mark"]
    (folder / "c.json").write_text(case["text"], encoding="utf-8")
    (config,), _ = load_configs(["c.json"], default_model="org/target")
    assert config.num_speculative_tokens == 3


@pytest.mark.parametrize("name", [case["name"] for case in CASES if case["verdict"] != "error"])
def test_whatever_vllm_accepts_is_passed_on_unchanged(folder: Path, name: str) -> None:
    (case,) = [case for case in CASES if case["name"] == name]
    (folder / "c.json").write_text(case["text"], encoding="utf-8")
    (config,), _ = read_configs(["c.json"], default_model="org/target", flags=case["server_args"])
    assert config.speculative_config == json.loads(case["text"].lstrip("\ufeff"))


def test_all_errors_of_all_files_come_at_once_in_the_order_of_the_text(folder: Path) -> None:
    (folder / "a.yaml").write_text(
        "speculative_config: {}\nmeasure: {rounds: 1, budget: 3}\nplacment: auto\nserve: {port: 1}\n"
    )
    (folder / "b.json").write_text("{,}")
    places = [finding.where for finding in errors("a.yaml", "b.json", "none.json")]
    assert places == [
        "a.yaml:1:1: speculative_config",
        "a.yaml:2:11: measure.rounds",
        "a.yaml:2:22: measure.budget",
        "a.yaml:3:1: placment",
        "a.yaml:4:9: serve.port",
        "b.json:1:2",
        "none.json",
    ]


def test_ids_are_stems_and_an_added_config_leaves_the_others_theirs(folder: Path) -> None:
    paths = [
        folder / name for name in ("eagle3.json", "drafts/eagle3.json", "x/drafts/eagle3.yaml", "y/drafts/eagle3.json")
    ]
    for path in paths:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps(NGRAM))
    configs, _ = load_configs(paths, default_model="org/target")
    assert [config.id for config in configs] == ["eagle3", "drafts-eagle3", "drafts-eagle3-2", "drafts-eagle3-3"]


@pytest.mark.parametrize(
    ("name", "config_id"), [("my config [a::b].json", "my-config-a-b"), ("v1.5.json", "v1.5"), ("---.json", "config")]
)
def test_ids_hold_nothing_that_node_ids_give_a_meaning(folder: Path, name: str, config_id: str) -> None:
    (folder / name).write_text(json.dumps(NGRAM))
    (config,), _ = load_configs([name], default_model="org/target")
    assert config.id == config_id


def test_a_file_given_twice_is_refused_also_under_another_name(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(NGRAM))
    (folder / "b.json").symlink_to("a.json")
    found = errors("a.json", "b.json", folder / "a.json")
    assert [(finding.where, finding.what) for finding in found] == [
        ("b.json", "this file is given twice (as a.json)"),
        ("a.json", "this file is given twice"),
    ]


@pytest.mark.parametrize("text", ['{"method": "ngram"}', "{" + "x" * 5000])
def test_json_in_place_of_a_file_name_is_told_apart(folder: Path, text: str) -> None:
    (finding,) = errors(text)
    assert "a file's name is needed" in finding.what
    assert not list(folder.iterdir())


def test_no_files_are_no_configs() -> None:
    assert load_configs([], default_model=None) == ([], [])


def test_warnings_come_back_beside_the_configs(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps({**ENVELOPE, "env": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}}))
    (config,), (finding,) = load_configs(["c.json"], default_model=None)
    assert config.id == "c"
    assert (finding.severity, finding.where.rpartition(" ")[2]) == ("warning", "env.VLLM_ENABLE_V1_MULTIPROCESSING")


def test_an_error_elsewhere_does_not_lift_a_warning_into_the_error(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps({**ENVELOPE, "env": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, "x": 1}))
    assert [finding.where.rpartition(" ")[2] for finding in errors("c.json")] == ["x"]


NAMES = st.sampled_from(
    [
        *KEYS,
        *LOAD_FIELDS,
        "speculative-config",
        "method",
        "path",
        "weight",
        "baseline",
        "specdec",
        "allow",
        "config",
        "-sc",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 20) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.sampled_from(
    ["docker", "run", "vllm", "serve", "--config", "x.yaml", "--port", "split", "./x", "~/x", "'", "a b"]
)
ANYTHING = st.recursive(
    SCALARS | WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(NAMES, ANYTHING, max_size=6) | ANYTHING)
def test_whatever_a_file_holds_the_answer_is_configs_or_findings(folder: Path, data: Any) -> None:
    (folder / "c.json").write_text(json.dumps(data))
    try:
        configs, findings = load_configs(["c.json"], default_model="m")
    except ConfigError as error:
        assert all(finding.severity == "error" and finding.what and finding.where for finding in error.findings)  # noqa: PT017 - either outcome is right
        assert len(set(error.findings)) == len(error.findings)  # noqa: PT017 - as above
    else:
        assert len(configs) == 1
        assert all(finding.severity in ("warning", "note") for finding in findings)


def test_a_config_knows_where_its_keys_stand(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps({**NGRAM, "a": {"b": 1}}))
    (config,), _ = load_configs(["c.json"], default_model="org/target")
    assert config.where("speculative_config.num_speculative_tokens") == "c.json:1:21: num_speculative_tokens"
    assert config.where("speculative_config.a.b").endswith(": a.b")
    assert config.where("speculative_config.quantization") == "c.json: speculative_config.quantization"


def test_a_config_can_be_made_by_hand() -> None:
    config = SpecConfig(id="x", path=Path("/c/x.json"), model="m", speculative_config=NGRAM)
    assert (config.placement, config.startup_timeout_s, config.measure.allow, config.load) == ("auto", 1800, (), {})
    assert config.where("serve").endswith("x.json: serve")
