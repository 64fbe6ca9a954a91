"""A config that is wrong for its vLLM is refused before any server starts; what is odd about it stands beside the figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

EAGLE: dict[str, Any] = {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 3}
SLIP = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2, "promt_lookup_max": 4}
REFUSED = "*promt_lookup_max: the installed vLLM 0.32.0 refuses this*Did you mean 'prompt_lookup_max'?*"


@pytest.fixture
def old_vllm(pytester: pytest.Pytester) -> str:
    """An interpreter that has vLLM 0.24.0, and notes down when a server is started with it."""
    info = pytester.path / "site" / "vllm-0.24.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.24.0\n")
    program = pytester.path / "python3"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -m ] && touch {pytester.path}/started\n'
        f'PYTHONPATH={pytester.path / "site"} exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def test_a_key_that_this_vllm_does_not_know_is_an_error_in_set_up_and_nothing_is_started(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path], old_vllm: str
) -> None:
    config = write_config(
        speculative_config=EAGLE | {"kv_cache_dtype": "fp8"},
        command=[old_vllm, "-m", "vllm.entrypoints.openai.api_server"],
    )
    write_gate()
    result = pytester.runpytest(f"--specdec-config={config}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kv_cache_dtype: is known since vLLM 0.26.0, and vLLM 0.24.0 refuses it*"])
    assert not (pytester.path / "started").exists()


def test_a_slip_in_a_key_or_a_flag_is_an_error_in_set_up_and_nothing_is_started(
    pytester: pytest.Pytester,
    write_config: Callable[..., Path],
    write_gate: Callable[..., Path],
    vllm_of: Callable[..., list[str]],
) -> None:
    command = vllm_of()
    config = write_config(speculative_config=SLIP, serve={"max_modellen": 64}, command=command)
    write_gate()
    result = pytester.runpytest(f"--specdec-config={config}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*serve.max_modellen: vLLM 0.32.0 has no flag --max-modellen*Did you mean max_model_len?*", REFUSED]
    )
    assert not Path(command[0]).with_name("started").exists()


def test_nothing_is_tuned_with_a_key_that_the_installed_vllm_refuses(
    pytester: pytest.Pytester,
    write_config: Callable[..., Path],
    write_gate: Callable[..., Path],
    vllm_of: Callable[..., list[str]],
) -> None:
    command = vllm_of()
    config = write_config(speculative_config=SLIP, command=command)
    write_gate()
    result = pytester.runpytest(f"--specdec-config={config}", "--specdec-tune")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines([REFUSED])
    assert not Path(command[0]).with_name("started").exists()


def test_a_workload_too_small_for_rounds_of_fresh_prompts_is_refused_before_a_server_starts(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    config = write_config(speculative_config={"method": "suffix"}, measure={"rounds": 9, "max_rounds": 9})
    write_gate()
    result = pytester.runpytest(f"--specdec-config={config}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*round 9 needs prompts that no earlier round had*", "*Provide 72 prompts for 9 rounds of 8*"]
    )
    assert not list((pytester.path / ".specdec").rglob("*.log"))


def test_where_the_version_cannot_be_asked_the_doubt_stands_beside_the_figures(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    config = write_config(speculative_config=EAGLE | {"kv_cache_dtype": "fp8"})
    write_gate()
    pytester.runpytest(f"--specdec-config={config}")
    results = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    (comparison,) = results["comparisons"].values()
    assert any("kv_cache_dtype: is refused if vLLM is older than 0.26.0" in note for note in comparison["notes"])


def test_a_draft_in_a_folder_that_does_not_fit_ends_the_run_before_it_begins(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    pytester.mkdir("draft")
    (pytester.path / "draft" / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}')
    config = write_config(speculative_config=EAGLE | {"method": "draft_model", "model": "./draft"})
    write_gate()
    result = pytester.runpytest(f"--specdec-config={config}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['*LlamaForCausalLMEagle3*Set "method": "eagle3".'])
