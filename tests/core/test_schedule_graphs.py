"""Which servers do not come up with a schedule, and what helps them."""

from __future__ import annotations

import pytest

from pytest_specdec.core.schedule_graphs import PIECES, cannot_capture, in_pieces

VARYING = [[1, 8, 3], [9, 128, 1]]


def fault(
    *,
    method: str | None = "eagle3",
    version: str | None = "0.26.0",
    schedule: list[list[int]] = VARYING,
    flags: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> str:
    return cannot_capture(method, version, schedule, flags=flags, env=env or {})


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "draft_model"])
@pytest.mark.parametrize("version", ["0.26.0", "0.31.1+cu130"])
def test_a_draft_that_runs_token_by_token_is_affected(method: str, version: str) -> None:
    assert "cannot capture full CUDA graphs" in fault(method=method, version=version)


@pytest.mark.parametrize("version", [None, "dev", "0.25.3", "0.32.0", "0.33.1"])
def test_other_releases_and_unknown_ones_are_not(version: str | None) -> None:
    assert fault(version=version) == ""


@pytest.mark.parametrize("method", [None, "ngram", "suffix", "dflash", "medusa"])
def test_other_methods_are_not(method: str | None) -> None:
    assert fault(method=method) == ""


def test_a_schedule_of_one_k_is_none() -> None:
    assert fault(schedule=[[1, 8, 3], [9, 128, 3]]) == ""


@pytest.mark.parametrize(
    "flags",
    [
        ("--enforce-eager",),
        ("--compilation-config", '{"cudagraph_mode": "PIECEWISE"}'),
        ("--compilation-config.cudagraph_mode", "NONE"),
        ("--compilation_config.cudagraph-mode=PIECEWISE",),
        ("-cc.cudagraph_mode=PIECEWISE",),
    ],
)
def test_whoever_chooses_the_graphs_is_left_alone(flags: tuple[str, ...]) -> None:
    assert fault(flags=flags) == ""


def test_the_older_model_runner_is_not_affected() -> None:
    assert fault(env={"VLLM_USE_V2_MODEL_RUNNER": "0"}) == ""


def test_the_remedy_joins_what_is_there_in_its_form_and_is_one() -> None:
    assert in_pieces(None) == PIECES
    assert in_pieces({"max_num_seqs": 4}) == {"max_num_seqs": 4, **PIECES}
    words = in_pieces(["--max-num-seqs", "4"])
    assert isinstance(words, list)
    assert words[:2] == ["--max-num-seqs", "4"]
    assert fault(flags=tuple(words)) == ""
