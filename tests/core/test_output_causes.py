"""What a miss of sampled outputs is explained with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.output_causes import output_causes
from tests.core.comparison_builder import build_comparison
from tests.core.output_builder import outputs_of
from tests.core.test_distributions import result


def causes(*, p_value: float, device: str = "Some CPU, 2 cores", version: str = "0.32.0") -> str:
    comparison = build_comparison(load=LoadSpec(temperature=0.8))
    servers = tuple(replace(server, version=version) for server in comparison.servers)
    comparison = replace(comparison, sampled=result(p_value), device=device, servers=servers)
    return " ".join(output_causes(comparison, judge(comparison, REGISTRY["lossless"].parse(value=True))))


def test_the_sampler_is_blamed() -> None:
    assert causes(p_value=0.001, version="0.33.0").startswith("The speculating server takes some tokens more often")
    assert causes(p_value=0.5) == ""


@pytest.mark.parametrize(
    ("device", "version", "known"),
    [
        ("Some CPU, 2 cores", "0.32.0", True),
        ("Some CPU, 1 core", "0.32.0", True),
        ("NVIDIA H200", "0.32.0", False),
        ("Some CPU, 2 cores", "0.33.0", False),
    ],
)
def test_a_defect_of_vllm_on_cpus_is_named_where_it_is(device: str, version: str, known: bool) -> None:  # noqa: FBT001
    assert ("never receives the temperature" in causes(p_value=0.001, device=device, version=version)) == known


@pytest.mark.parametrize(
    ("prompts", "outcome", "said"),
    [
        (12, "unsure", "more prompts would tell."),
        (64, "FAIL", "speculation decides more ties otherwise than another batch"),
    ],
)
def test_ties_are_blamed_where_they_are_proven_to_be_more_than_noise(prompts: int, outcome: str, said: str) -> None:
    outputs = outputs_of(prompts=prompts, load=dict.fromkeys(range(prompts // 3), 0.1))
    comparison = replace(build_comparison(rounds=2), outputs=outputs)
    (verdict,) = judge(comparison, REGISTRY["lossless"].parse(value=True))
    assert verdict.outcome == outcome
    assert said in " ".join(output_causes(comparison, [verdict]))
