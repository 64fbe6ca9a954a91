"""``--specdec-dynamic``: K by load measured, a schedule derived and written, and its config gated in the same run."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import load_configs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A speculating server that gains alone and loses in company, whatever its K; longer drafts are worth a little more.
FALLING = {"specdec": {"tpot_ms_per_running": 16, "schedule_ratio": 0.6}, "jitter": 0.01}
SWEEP = """
    import pytest

    @pytest.mark.spec_load(workload="tiny", concurrency=[1, 4], num_requests=4, max_tokens=12)
    @pytest.mark.spec_slo(tpot_gain={gain})
    def test_gate(spec_comparison):
        pass
"""
ONE_LOAD = SWEEP.replace("[1, 4]", "4")


@pytest.fixture
def start(pytester: pytest.Pytester, write_config: Callable[..., Path]) -> Callable[..., pytest.RunResult]:
    def run(
        *options: str,
        gain: float = -4.5,
        test: str = SWEEP,
        name: str = "fake.json",
        fake: Any = FALLING,
        **envelope: Any,
    ) -> Any:
        # Made-up times in a fake that does not follow schedules: what it shows is the order of things.
        write_config(name, fake=fake, measure={"rounds": 4, "max_rounds": 4}, **envelope)
        pytester.makepyfile(test_it=test.format(gain=gain))
        return pytester.runpytest(f"--specdec-config={name}", "--specdec-dynamic", *options)

    return run


def test_a_schedule_is_derived_written_as_a_config_and_gated_in_the_same_run(
    pytester: pytest.Pytester, start: Callable[..., pytest.RunResult]
) -> None:
    result = start()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "specdec: fake-dynamic: measuring K = 1, 3",
            "*dynamic speculation: fake*",
            "*concurrency*K = 1*K = 3*scheduled K",
            "*1 * % * %*",
            "*4 *-* % *-* %*0",
            "num_speculative_tokens_per_batch_size: [[][[]1, *, 0]]",
            "written to fake-dynamic.json",
            "recommended, its gate is ok: use fake-dynamic.json",
        ]
    )
    source, written = (json.loads((pytester.path / name).read_text()) for name in ("fake.json", "fake-dynamic.json"))
    schedule = written["speculative_config"].pop("num_speculative_tokens_per_batch_size")
    assert schedule[0][0] == 1
    assert schedule[-1][1:] == [4, 0]
    written["speculative_config"]["num_speculative_tokens"] = 3
    assert written == source
    load_configs([pytester.path / "fake-dynamic.json"], default_model=None)
    document = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    gated = [gate for gate in document["gates"] if gate["config_id"] == "fake-dynamic"]
    assert len(gated) == 1
    comparison = document["comparisons"][gated[0]["comparison"]]
    assert comparison["extra"]["schedule"] == str(schedule)
    (started,) = {
        server["command"][server["command"].index("--speculative-config") + 1]
        for server in comparison["servers"]
        if server["arm"] == "specdec"
    }
    assert json.loads(started) == written["speculative_config"] | {"num_speculative_tokens_per_batch_size": schedule}


def test_a_config_whose_gate_is_missed_is_not_recommended(start: Callable[..., pytest.RunResult]) -> None:
    result = start(gain=0.5)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["not recommended: test_it.py::test_gate?fake-dynamic? is FAIL"])


def test_a_schedule_that_costs_more_than_it_brings_is_not_recommended(start: Callable[..., pytest.RunResult]) -> None:
    result = start(fake={**FALLING, "specdec": {"tpot_ms_per_running": 16, "schedule_ratio": 1.7}})
    result.assert_outcomes(passed=2)
    told = " ".join(" ".join(result.outlines).split())
    assert "not recommended: K = 3 without a schedule takes less time per token, " in told
    assert "recommended, its gate is ok" not in told


def test_an_older_vllm_is_told_to_limit_the_load_or_lower_k(
    start: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_specdec.serving import preflight

    monkeypatch.setattr(preflight, "version_behind", lambda _: "0.22.0")
    result = start("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*no schedule: vLLM 0.22.0 knows no num_speculative_tokens_per_batch_size, which came with 0.24.0: limit the load*"
        ]
    )


def test_a_vllm_that_cannot_capture_the_graphs_gets_them_in_pieces(
    pytester: pytest.Pytester, start: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_specdec.serving import preflight

    monkeypatch.setattr(preflight, "version_behind", lambda _: "0.26.0")
    (pytester.path / "draft").mkdir()
    draft = {"method": "eagle3", "model": "./draft", "num_speculative_tokens": 3}
    result = start(speculative_config=draft, serve_specdec={"max_num_seqs": 64})
    said = " ".join(" ".join(result.outlines).split())
    fault = "vLLM 0.26.0 cannot capture full CUDA graphs for a draft whose K depends on the batch size"
    assert f"{fault}, so its graphs are in pieces (serve_specdec)" in said
    written = json.loads((pytester.path / "fake-dynamic.json").read_text())
    assert written["serve_specdec"] == {"max_num_seqs": 64, "compilation_config.cudagraph_mode": "PIECEWISE"}
    document = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    (gate,) = (gate for gate in document["gates"] if gate["config_id"] == "fake-dynamic")
    commands = {server["arm"]: server["command"] for server in document["comparisons"][gate["comparison"]]["servers"]}
    flag = "--compilation-config.cudagraph_mode"
    assert commands["specdec"][commands["specdec"].index(flag) + 1] == "PIECEWISE"
    assert flag not in commands["baseline"]


def test_a_file_that_is_there_is_not_overwritten_without_being_told(
    pytester: pytest.Pytester, start: Callable[..., pytest.RunResult]
) -> None:
    (pytester.path / "fake-dynamic.json").write_text("mine")
    result = start()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*fake-dynamic.json is there already*--specdec-replace*"])
    assert (pytester.path / "fake-dynamic.json").read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_measured(
    pytester: pytest.Pytester, start: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: (path, mode) != (pytester.path, os.W_OK) and access(path, mode)
    )
    result = start()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the folder of fake.json cannot be written to*writes fake-dynamic.json there*"])
    result.stdout.no_fnmatch_line("*starting*")


def test_a_schedule_that_cannot_be_written_is_an_error_and_shown(
    pytester: pytest.Pytester, start: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    result = start()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "num_speculative_tokens_per_batch_size: [[][[]1, *, 0]]",
            "not gated: *fake-dynamic.json: cannot be written: No space left on device. Free space or make*",
            "not recommended: test_it.py::test_gate?fake-dynamic? is ERROR",
        ]
    )
    assert not [path.name for path in pytester.path.iterdir() if "fake-dynamic" in path.name]


def test_without_a_list_of_loads_nothing_starts(start: Callable[..., pytest.RunResult]) -> None:
    result = start(test=ONE_LOAD)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no selected test measures several: give one a list*"])
    result.stdout.no_fnmatch_line("*starting*")


def test_a_run_without_tests_has_nothing_to_gate(start: Callable[..., pytest.RunResult]) -> None:
    result = start("--specdec-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--specdec-plan and --specdec-dynamic are runs of their own: give one of them"])


def test_a_config_without_k_is_refused(start: Callable[..., pytest.RunResult]) -> None:
    result = start(speculative_config={"method": "suffix"})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*this config states none. Add num_speculative_tokens*"])
