"""For all tests: Hypothesis draws the same examples in every run, and takes the time that they take; a vLLM that is sources only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# Found by chance in a run that was about something else, a new example would only look like a test that fails now and then;
# `pytest --hypothesis-profile=search` looks for some.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("certain", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("certain")


VLLM_SOURCES = {
    "engine/arg_utils.py": (
        "class EngineArgs:\n    served_by: str = ''\n    host: str\n    port: int\n    served_model_name: str\n    speculative_config: dict\n"
        "    def create_speculative_config(self):\n        return SpeculativeConfig(**self.speculative_config)\n"
    ),
    "config/model.py": "group.add_argument('--max-model-len')\ngroup.add_argument('--max_num_seqs')\n",
    "config/utils.py": "def config(cls):\n    return dataclass(cls, config=ConfigDict(extra='forbid'))\n",
    "config/speculative.py": (
        "from vllm.config.utils import config\n@config\nclass SpeculativeConfig:\n    method: str\n    num_speculative_tokens: int\n"
        "    prompt_lookup_min: int\n    prompt_lookup_max: int\n"
    ),
}
"""By their places in the package: as much of vLLM's sources as is read."""


@pytest.fixture
def vllm_of(tmp_path: Path) -> Callable[..., list[str]]:
    """Makes a command whose vLLM 0.32.0 has the given plugins, by name, and sources, in place of some of its own.

    A server that is started with it leaves a file ``started`` beside the interpreter.
    """

    def made(plugins: Mapping[str, str] | None = None, sources: Mapping[str, str] | None = None) -> list[str]:
        site = tmp_path / "site"
        for part in ("config", "engine", "entrypoints", "platforms", "utils"):
            (site / "vllm" / part).mkdir(parents=True)
            (site / "vllm" / part / "__init__.py").touch()
        (site / "vllm" / "__init__.py").write_text("raise SystemExit('vLLM must not be imported')\n")
        for name, text in {**VLLM_SOURCES, **(sources or {})}.items():
            (site / "vllm" / name).write_text(text)
        for name, version in {"vllm": "0.32.0", **dict.fromkeys(plugins or {}, "1.0")}.items():
            info = site / f"{name}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for name, text in (plugins or {}).items():
            (site / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(
                f"[vllm.general_plugins]\nx = {name}.inner:register\n"
            )
            if text:
                (site / name).mkdir()
                (site / name / "__init__.py").write_text(text)
        program = tmp_path / "python3"
        # -S leaves out what else is installed beside the tests, plugins of vLLM among it.
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -m ] && touch {tmp_path}/started\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n'
        )
        program.chmod(0o755)
        return [str(program), "-m", "vllm.entrypoints.openai.api_server"]

    return made
