"""Keys that the sources of the installed vLLM do not hold are errors before a launch; where the sources leave a doubt, nothing is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.serving.preflight import checked_configs, key_findings, launch_findings, version_findings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
CLASS = """
from vllm.config.utils import config

@config
class SpeculativeConfig:
    method: str
    num_speculative_tokens: int
    prompt_lookup_min: int
    prompt_lookup_max: int
    some_new_field: int = 0
    target_model_config: object
    \"\"\"What no_key_of_ours is said to be.\"\"\"

    @model_validator(mode="after")
    def _check(self):
        local: int = 3
"""


def config_of(folder: Path, command: list[str], speculative: dict[str, Any], **envelope: Any) -> SpecConfig:
    file = folder / "c.json"
    file.write_text(
        json.dumps({"model": "org/t", "speculative_config": NGRAM | speculative, "command": command, **envelope})
    )
    (config,), _ = checked_configs([file], default_model=None)
    return config


def refused(config: SpecConfig, version: str = "0.32.0") -> list[str]:
    """The keys of a config that are errors before a launch."""
    found = launch_findings(config, version)
    return [one.where.rpartition(".")[2] for one in found if one.severity == "error"]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("brand_new", "Remove it."),
        ("some_new_feild", "Did you mean 'some_new_field'?"),
        ("some-new-feild", "Did you mean 'some_new_field'?"),
        ("target_model_confg", "Remove it."),
        ("local", "Remove it."),
    ],
)
@pytest.mark.parametrize("version", ["0.32.0", "0.99.0", "0.32.1.dev3+gabc", "0.33.0+ascend"])
def test_a_key_that_is_no_field_is_an_error_before_a_launch(
    key: str, remedy: str, version: str, tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    config = config_of(tmp_path, vllm_of(sources={"config/speculative.py": CLASS}), {key: 1})
    (error,) = [found for found in launch_findings(config, version) if found.severity == "error"]
    assert "c.json:1:" in error.where
    assert error.where.endswith((f": speculative_config.{key}", f": speculative_config['{key}']"))
    assert error.what.startswith(f"the installed vLLM {version} refuses this")
    assert error.remedy == remedy
    assert [found for found in version_findings(config, version) if found.severity == "error"] == []
    (warning,) = key_findings(config, version, "warning")
    assert (warning.severity, warning.what) == ("warning", error.what)


def test_a_key_that_the_table_refuses_is_told_once(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    config = config_of(tmp_path, vllm_of(), {"kv_cache_dtype": "fp8"})
    (error,) = launch_findings(config, "0.24.0")
    assert error.what == "is known since vLLM 0.26.0, and vLLM 0.24.0 refuses it"
    # The table would let it pass here, and the sources know better.
    assert refused(config, "0.32.0") == ["kv_cache_dtype"]


BASE = """
class Base:
    from_base: int
    renamed: int = Field(default=1, validation_alias=AliasChoices("other_name", "third_name"))
"""
FORBIDS = "from vllm.config.utils import config\n@config\n"
BODY = "    method: str\n    num_speculative_tokens: int\n    prompt_lookup_min: int\n    prompt_lookup_max: int\n"


@pytest.mark.parametrize(
    "sources",
    [
        {"config/speculative.py": f"{BASE}{FORBIDS}class SpeculativeConfig(Base):\n{BODY}"},
        {
            "config/speculative.py": f"from vllm.config.base import Base\n{FORBIDS}class SpeculativeConfig(Base):\n{BODY}",
            "config/base.py": BASE,
        },
        {
            "config/speculative.py": f"from . import Named as Mine\n{FORBIDS}class SpeculativeConfig(Mine):\n{BODY}",
            "config/__init__.py": "from .base import Base as Named\n",
            "config/base.py": BASE,
        },
    ],
    ids=["same file", "another file", "by a package"],
)
def test_fields_of_bases_and_aliases_are_taken(
    sources: dict[str, str], tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    keys = {"from_base": 1, "renamed": 1, "other_name": 1, "third_name": 1, "no_key": 1}
    assert refused(config_of(tmp_path, vllm_of(sources=sources), keys)) == ["no_key"]


def test_a_field_with_hyphens_is_no_unknown_key(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    command = vllm_of(sources={"config/speculative.py": CLASS})
    assert refused(config_of(tmp_path, command, {"some-new-field": 1})) == []


ARGUMENTS = """
class EngineArgs:
    def create_speculative_config(self):
        self.speculative_config.pop("brand_new", None)
"""


@pytest.mark.parametrize(
    "sources",
    [
        {"config/speculative.py": f"class SpeculativeConfig:\n{BODY}"},
        {"config/speculative.py": f"from pydantic import dataclass\n@dataclass\nclass SpeculativeConfig:\n{BODY}"},
        {"config/utils.py": "def config(cls):\n    return cls\n"},
        {"config/utils.py": "def config(cls):\n    return dataclass(cls, config=ConfigDict(extra='allow'))\n"},
        {
            "config/speculative.py": "from vllm.config.utils import config\n"
            f"@config(config=ConfigDict(extra='ignore'))\nclass SpeculativeConfig:\n{BODY}"
        },
        {
            "config/speculative.py": f"from elsewhere import Base\n{FORBIDS}class SpeculativeConfig(Base):\n{BODY}",
            "../elsewhere.py": "class Base: ...\n",
        },
        {"config/speculative.py": f"{FORBIDS}class SpeculativeConfig(mod.Base):\n{BODY}"},
        {"config/speculative.py": f"{FORBIDS}class SpeculativeConfig:\n{BODY}    if NEW:\n        brand_new: int\n"},
        {"config/speculative.py": f"{FORBIDS}class SpeculativeConfig:\n{BODY}    def __init__(self, **keys): ...\n"},
        {
            "config/speculative.py": f"{FORBIDS}class SpeculativeConfig:\n{BODY}"
            "    @model_validator(mode='before')\n    def _first(cls, values): ...\n"
        },
        {"config/speculative.py": "SpeculativeConfig = make()\n"},
        {"config/speculative.py": "class SpeculativeConfig(:\n"},
        {"engine/arg_utils.py": ARGUMENTS},
        {"engine/arg_utils.py": "class EngineArgs: ...\n"},
    ],
    ids=[
        "no decorator",
        "pydantic's own decorator",
        "a decorator that forbids nothing",
        "a decorator that allows others",
        "a class that ignores others",
        "a base from elsewhere",
        "a base behind a dot",
        "fields under a condition",
        "an __init__",
        "a validator that comes first",
        "no class",
        "no Python",
        "taken out before",
        "filled elsewhere",
    ],
)
def test_where_the_sources_leave_a_doubt_nothing_is_said(
    sources: dict[str, str], tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    assert refused(config_of(tmp_path, vllm_of(sources=sources), {"brand_new": 1})) == []


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("class Mine(SpeculativeConfig):\n    brand_new: int\n", ["no_key"]),
        ("speculative_config.pop('brand_new')\n", ["no_key"]),
        ("class Mine(SpeculativeConfig, extra='allow'): ...\n", []),
        ("brand_new = 3\n", ["brand_new", "no_key"]),
        ("", []),
    ],
    ids=["a field", "taken out", "all allowed", "about something else", "compiled"],
)
def test_a_plugin_of_vllm_may_bring_keys(
    plugin: str, expected: list[str], tmp_path: Path, vllm_of: Callable[..., list[str]]
) -> None:
    command = vllm_of({"its_plugin": plugin})
    assert refused(config_of(tmp_path, command, {"brand_new": 1, "no_key": 1})) == expected


def test_where_another_vllm_may_run_nothing_is_said(tmp_path: Path, vllm_of: Callable[..., list[str]]) -> None:
    command = vllm_of()
    assert refused(config_of(tmp_path, command, {"brand_new": 1})) == ["brand_new"]
    assert refused(config_of(tmp_path, ["env", *command], {"brand_new": 1})) == []
    assert refused(config_of(tmp_path, command, {"brand_new": 1}, env={"PYTHONPATH": "/elsewhere"})) == []
    unknown = [found.severity for found in launch_findings(config_of(tmp_path, command, {"brand_new": 1}), None)]
    assert "error" not in unknown
