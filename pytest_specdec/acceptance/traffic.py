"""Step 2: how much of the answers could be looked up, and what that and the models' files speak for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_specdec.core.proposers import proposer_advice
from pytest_specdec.core.repetition import lookup_share
from pytest_specdec.fixtures import GATES

if TYPE_CHECKING:
    from pytest_specdec.acceptance.conditions import Conditions
    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.handed import SpecServers
    from pytest_specdec.load.prompt_reader import Prompt

_ANSWERS = 8
_TIMEOUT_S = 120.0
_OK = 200


def measured_repetition(
    config: SpecConfig, conditions: Conditions, request: pytest.FixtureRequest
) -> tuple[float | None, str]:
    """Share of the baseline's answers that could be looked up, and how it was found or why not."""
    try:
        servers: SpecServers = request.getfixturevalue("spec_servers")
    except pytest.fail.Exception as error:
        return None, f"repetition of the answers was not measured: {str(error).splitlines()[0]}"
    pairs = [
        (prompt.text, answer)
        for prompt in _prompts(config, conditions.traffic, request)
        if (answer := _answer(servers, prompt, conditions.max_tokens))
    ]
    share = lookup_share(pairs)
    if share is None:
        return None, "repetition of the answers was not measured: the baseline answered nothing"
    predictable = "predictable" if share >= conditions.procedure.repetition else "not repetitive"
    return share, (
        f"{100 * share:.0f} % of the words of {len(pairs)} answers ({conditions.traffic}) could be looked up: {predictable}"
    )


def proposer_lines(config: SpecConfig, repetition: float | None, conditions: Conditions) -> list[str]:
    """Advice from the models' files and from the answers."""
    from pytest_specdec.serving.model_folder import read_model

    draft = config.speculative_config.get("model")
    return proposer_advice(
        method=config.method,
        target=read_model(config.model, config.folder),
        draft=read_model(draft, config.folder) if isinstance(draft, str) else None,
        repetition=repetition,
        threshold=conditions.procedure.repetition,
    )


def _prompts(config: SpecConfig, name: str, request: pytest.FixtureRequest) -> list[Prompt]:
    from pytest_specdec.load.workload import read_workload
    from pytest_specdec.workload_search import find_workload

    ini = request.config.stash[GATES].options.workloads
    found = find_workload(name, config=config, ini=ini, test_dir=request.path.parent)
    prompts = read_workload(found.path, name=name, options=found.options).prompts
    # Spread over the file, which may be sorted by class.
    return list(prompts[:: max(1, len(prompts) // _ANSWERS)][:_ANSWERS])


def _answer(servers: SpecServers, prompt: Prompt, max_tokens: int) -> str:
    """The baseline's greedy answer; empty where it gives none."""
    from pytest_specdec.serving.readiness import post

    address = urlsplit(servers.baseline_url)
    body: dict[str, Any] = {"model": servers.baseline_model, "max_tokens": max_tokens, "temperature": 0}
    chat = prompt.messages is not None
    body |= {"messages": list(prompt.messages or ())} if chat else {"prompt": prompt.prompt}
    path = "/v1/chat/completions" if chat else "/v1/completions"
    answer = post(address.hostname or "127.0.0.1", address.port or 80, path, _TIMEOUT_S, body)
    if answer is None or answer.status != _OK or not isinstance(answer.data, dict):
        return ""
    (choice, *_) = answer.data.get("choices") or [{}]
    return str((choice.get("message") or {}).get("content") or "") if chat else str(choice.get("text") or "")
