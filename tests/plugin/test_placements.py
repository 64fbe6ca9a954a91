"""Every placement with real processes: who is up, who is awake and on which devices, and a verdict that is right all the same."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

# Imported here, so that the pytest within the test has these very modules, and not copies of its own.
from pytest_specdec import stage
from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.serving import sleep
from tests.plugin.conftest import FAST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.serving.process import Server

GPUS = """
import pytest

from pytest_specdec.fixtures import GATES
from tests.plugin.pretended import PretendedMachine


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.stash[GATES].session.machine = PretendedMachine({arguments})
"""


@pytest.fixture
def journal(pytester: pytest.Pytester) -> Path:
    return pytester.path / "journal.txt"


@pytest.fixture
def pretend(pytester: pytest.Pytester) -> Callable[[str], Path]:
    """Give the inner pytest a machine with GPUs."""
    return lambda arguments: pytester.makeconftest(GPUS.format(arguments=arguments))


@pytest.fixture
def run_gate(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None], journal: Path
) -> Callable[..., pytest.RunResult]:
    """Run the gate under a placement; the servers write the journal."""

    def run(
        placement: str, *arguments: str, slo: str = "tpot_gain=0.1", fake: dict[str, Any] | None = None, **envelope: Any
    ) -> pytest.RunResult:
        write_config(fake={"journal": str(journal)} | (fake or {}), placement=placement, **envelope)
        write_gate(slo)
        return pytester.runpytest("--specdec-config=fake.json", *arguments)

    return run


def events(journal: Path) -> list[tuple[str, str, str]]:
    """(arm, process, event); runs of the same event in one process count once."""
    found: list[tuple[str, str, str]] = []
    for line in journal.read_text().splitlines():
        arm, pid, event = line.split(maxsplit=2)
        if found[-1:] != [(arm, pid, event)]:
            found.append((arm, pid, event))
    return found


def pairs_started(journal: Path) -> list[set[tuple[str, str]]]:
    """Which servers started, two at a time: they start side by side, and either may be up first."""
    starts = [(arm, event) for arm, _, event in events(journal) if event.startswith("start")]
    return [set(starts[place : place + 2]) for place in range(0, len(starts), 2)]


def comparison_of(pytester: pytest.Pytester) -> Comparison:
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    return comparison


def most_awake(journal: Path) -> int:
    """The largest number of servers that were up and awake at once."""
    awake: set[str] = set()
    most = 0
    for line in journal.read_text().splitlines():
        _, pid, event = line.split(maxsplit=2)
        if event.startswith("start") or event == "wake":
            awake.add(pid)
        elif event in ("sleep", "stop"):
            awake.discard(pid)
        most = max(most, len(awake))
    return most


def test_swap_keeps_one_server_awake_at_a_time(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path], pytester: pytest.Pytester, journal: Path
) -> None:
    pretend("1")
    result = run_gate("swap")
    result.assert_outcomes(passed=1)
    assert most_awake(journal) == 1
    assert [(arm, event.split()[0]) for arm, _, event in events(journal) if event != "stop"] == [
        ("baseline", "start"),
        ("baseline", "request"),
        ("baseline", "sleep"),
        ("specdec", "start"),
        ("specdec", "request"),
        ("specdec", "sleep"),
        ("baseline", "wake"),
        ("baseline", "request"),
        ("baseline", "sleep"),
        ("specdec", "wake"),
        ("specdec", "request"),  # rounds 1 and 2
        ("specdec", "sleep"),
        ("baseline", "wake"),
        ("baseline", "request"),  # rounds 2 and 3
        ("baseline", "sleep"),
        ("specdec", "wake"),
        ("specdec", "request"),
    ]
    comparison = comparison_of(pytester)
    assert comparison.placement is not None
    assert comparison.placement.sentence == "placement: swap, because the config says so"
    assert comparison.time is not None
    assert comparison.time.switch_s > 0
    assert all(run.prefix_cache_reset for run in comparison.runs)


def test_swap_is_listed_under_what_we_changed(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path], pytester: pytest.Pytester
) -> None:
    pretend("1")
    run_gate("swap")
    changes = comparison_of(pytester).changes
    assert "--enable-sleep-mode" in changes
    assert "--gpu-memory-utilization 0.9" in changes
    assert "VLLM_SERVER_DEV_MODE=1" in changes


@pytest.mark.parametrize(
    ("knob", "hangs", "said"),
    [
        ("hang_at_sleep", "/sleep", "the baseline server did not go to sleep within 1 s*"),
        ("hang_at_wake", "/wake_up", "the baseline server did not wake up within 1 s*"),
    ],
)
def test_a_server_that_does_not_change_in_time_is_an_error(
    knob: str,
    hangs: str,
    said: str,
    *,
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch = sleep._switch

    def impatient(server: Server, path: str, *, asleep: bool, timeout_s: float) -> None:
        """Where the server hangs, and nowhere else."""
        switch(server, path, asleep=asleep, timeout_s=1.0 if path.startswith(hangs) else timeout_s)

    monkeypatch.setattr(sleep, "_switch", impatient)
    pretend("1")
    result = run_gate("swap", fake={"baseline": {knob: True}})
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said, "*placement: sequential*"])


def test_a_server_without_sleep_mode_is_an_error(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path]
) -> None:
    pretend("1")
    result = run_gate("swap", env={"FAKE_VLLM": json.dumps(FAST), "VLLM_SERVER_DEV_MODE": "0"})
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the baseline server has no sleep mode*"])


def test_a_sleeping_server_that_keeps_its_memory_is_an_error(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_MEMORY_LAG_S", 0.0)
    pretend("1, in_use_gib=[70.0, 69.0]")
    result = run_gate("swap")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the baseline server sleeps, and device 0 still has 69.0 of 70.0 GiB in use"])


def test_a_miss_under_swap_is_a_failure(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path]
) -> None:
    pretend("1")
    result = run_gate("swap", slo="tpot_gain=0.9")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAIL*tpot_gain*", "*placement: swap, because the config says so"])


def test_swap_on_a_cpu_says_why_not(run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate("swap")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["placement swap needs a GPU*", "*fake.json*placement*", "*sequential*"])


def test_split_on_a_cpu_says_why_not(run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate("split")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["placement split needs GPUs*"])


def test_sequential_launches_each_server_twice_and_one_at_a_time(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, journal: Path
) -> None:
    result = run_gate("sequential", measure={"rounds": 4, "max_rounds": 4})
    result.assert_outcomes(passed=1)
    assert most_awake(journal) == 1
    starts = [arm for arm, _, event in events(journal) if event.startswith("start")]
    assert starts == ["baseline", "specdec", "specdec", "baseline"]
    comparison = comparison_of(pytester)
    assert [(run.arm, run.round, run.order) for run in comparison.runs] == [
        ("baseline", 0, 0),
        ("baseline", 1, 0),
        ("specdec", 0, 1),
        ("specdec", 1, 1),
        ("specdec", 2, 0),
        ("specdec", 3, 0),
        ("baseline", 2, 1),
        ("baseline", 3, 1),
    ]
    assert comparison.placement is not None
    assert [(block.order, block.launches) for block in comparison.placement.blocks] == [
        (("baseline", "specdec"), (0, 0)),
        (("specdec", "baseline"), (1, 1)),
    ]
    assert [record.launch for record in comparison.warm_ups] == [0, 0, 1, 1]
    assert all(block.tpot_gain is not None and block.tpot_gain > 0.1 for block in comparison.placement.blocks)


def test_sequential_beyond_its_budget_launches_each_server_once_and_says_so(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, journal: Path
) -> None:
    # One start takes longer than a quarter of the budget, all rounds together take less than it.
    fake = {"startup_s": 2.0}
    measure = {"rounds": 2, "max_rounds": 2, "budget_s": 8}
    result = run_gate("sequential", fake=fake, slo="min_acceptance_length=1.5", measure=measure)
    result.assert_outcomes(passed=1)  # a gain would be an error: nothing tells it from what else changed meanwhile
    assert [arm for arm, _, event in events(journal) if event.startswith("start")] == ["baseline", "specdec"]
    assert any("launched once only" in note for note in comparison_of(pytester).notes)


def test_an_unsure_sequential_gate_gets_another_block_from_the_server_that_is_up(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, journal: Path
) -> None:
    fake = {"specdec": {"acceptance": 0.0}}
    run_gate("sequential", fake=fake, slo="tpot_gain=0.0", measure={"rounds": 2, "max_rounds": 4})
    starts = [arm for arm, _, event in events(journal) if event.startswith("start")]
    assert starts == ["baseline", "specdec", "specdec", "baseline", "specdec"]
    assert comparison_of(pytester).rounds == 4


def test_split_exchanges_the_devices_half_way(
    run_gate: Callable[..., pytest.RunResult], pretend: Callable[[str], Path], pytester: pytest.Pytester, journal: Path
) -> None:
    pretend("2")
    result = run_gate("split", measure={"rounds": 4, "max_rounds": 4})
    result.assert_outcomes(passed=1)
    assert pairs_started(journal) == [
        {("baseline", "start CUDA_VISIBLE_DEVICES=0"), ("specdec", "start CUDA_VISIBLE_DEVICES=1")},
        {("baseline", "start CUDA_VISIBLE_DEVICES=1"), ("specdec", "start CUDA_VISIBLE_DEVICES=0")},
    ]
    comparison = comparison_of(pytester)
    assert comparison.placement is not None
    assert [(block.devices, block.rounds) for block in comparison.placement.blocks] == [
        (((0,), (1,)), 2),
        (((1,), (0,)), 2),
    ]
    assert [run.order for run in comparison.runs] == [0, 1] * 4
    (named,) = [note for note in comparison.notes if "with the devices exchanged" in note]
    assert "slower, which cancels" in named


def test_split_takes_the_devices_of_the_config_within_those_that_can_be_seen(
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    pretend("8")
    config = {"devices": {"baseline": [0, 1], "specdec": [3, 2]}, "serve": {"tensor_parallel_size": 2}}
    run_gate("split", measure={"rounds": 2, "max_rounds": 2}, **config)
    assert pairs_started(journal) == [
        {("baseline", "start CUDA_VISIBLE_DEVICES=4,5"), ("specdec", "start CUDA_VISIBLE_DEVICES=7,6")},
        {("baseline", "start CUDA_VISIBLE_DEVICES=7,6"), ("specdec", "start CUDA_VISIBLE_DEVICES=4,5")},
    ]


def test_auto_on_a_cpu_is_together_and_says_why(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, journal: Path
) -> None:
    run_gate("auto").assert_outcomes(passed=1)
    placement = comparison_of(pytester).placement
    assert placement is not None
    assert placement.sentence == "placement: together, because there is no GPU here"
    assert most_awake(journal) == 2


@pytest.mark.parametrize(("slo", "beside"), [("tpot_gain=0.1", True), ("max_startup_s=60", False)])
def test_servers_start_side_by_side_unless_their_starts_are_judged(
    slo: str, *, beside: bool, run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    env = {"FAKE_VLLM": json.dumps(FAST), "VLLM_CPU_KVCACHE_SPACE": "1"}
    run_gate("auto", slo=slo, env=env).assert_outcomes(passed=1)
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert [server.started_beside for server in comparison.servers] == [beside, beside]


@pytest.fixture
def target(pytester: pytest.Pytester) -> dict[str, Any]:
    """An envelope with a target of known size, and the command of a server whose device is too small for a cache that is set."""
    (pytester.path / "target").mkdir()
    with (pytester.path / "target" / "model.safetensors").open("wb") as file:
        file.truncate(1024**3)
    pytester.makepyfile(crowded=CROWDED)
    return {"model": "./target", "command": [sys.executable, str(pytester.path / "crowded.py")]}


CROWDED = """
import os, sys

arm = "specdec" if "--speculative-config" in sys.argv else "baseline"
if "--kv-cache-memory-bytes" in sys.argv and os.environ.get("CROWDED") in ("both", arm):
    sys.exit(os.environ.get("SAYING", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.81 GiB."))
os.execv(sys.executable, [sys.executable, "-m", "pytest_specdec.testing.fake_vllm", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("slo", "beside", "share"),
    [("tpot_gain=0.1", True, "0.42"), ("max_startup_s=60", False, "0.45"), ("max_kv_capacity_loss=0.5", False, "0.45")],
)
def test_where_sizes_are_known_the_servers_of_one_gpu_start_side_by_side(
    slo: str,
    share: str,
    *,
    beside: bool,
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    pytester: pytest.Pytester,
    target: dict[str, Any],
) -> None:
    pretend("1")
    run_gate("auto", slo=slo, **target).assert_outcomes(passed=1)
    comparison = comparison_of(pytester)
    assert [server.started_beside for server in comparison.servers] == [beside, beside]
    for server in comparison.servers:
        assert server.command[server.command.index("--gpu-memory-utilization") + 1] == share
        assert ("--kv-cache-memory-bytes" in server.command) is beside


@pytest.mark.parametrize(("slo", "chosen"), [("tpot_gain=0.1", True), ("max_kv_capacity_loss=0.5", False)])
def test_the_plan_shows_the_caches_that_would_be_chosen(
    slo: str,
    *,
    chosen: bool,
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    target: dict[str, Any],
) -> None:
    pretend("1")
    said = " ".join(run_gate("auto", "--specdec-plan", slo=slo, **target).outlines)
    assert "--gpu-memory-utilization" in said
    assert ("--kv-cache-memory-bytes" in said) is chosen


@pytest.mark.parametrize("crowded", ["both", "specdec"])
def test_servers_for_whose_caches_there_is_no_room_start_again_one_after_the_other(
    crowded: str,
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    pytester: pytest.Pytester,
    target: dict[str, Any],
) -> None:
    pretend("1")
    result = run_gate("auto", **target, env={"CROWDED": crowded, "FAKE_VLLM": json.dumps(FAST)})
    result.assert_outcomes(passed=1)
    assert "the device ran out of memory (OutOfMemoryError); starting again, one after" in " ".join(result.outlines)
    comparison = comparison_of(pytester)
    assert [server.started_beside for server in comparison.servers] == [False, False]
    assert not any("--kv-cache-memory-bytes" in server.command for server in comparison.servers)
    assert comparison.changes[0] == "--gpu-memory-utilization 0.45"
    assert not any("kv-cache" in change for change in comparison.changes)


@pytest.mark.parametrize(
    ("serve", "saying", "explanation"),
    [
        (
            {"kv_cache_memory_bytes": "7G"},
            "torch.OutOfMemoryError: CUDA out of memory.",
            "the device ran out of memory",
        ),
        ({}, "ValueError: what is this", "what is this"),
        (
            {},
            "ValueError: Free memory on device cuda:0 (30.1/79.2 GiB) on startup is less than desired GPU memory utilization (0.42, 33.3 GiB).",
            "only 30.1 of 79.2 GiB are free",
        ),
    ],
)
def test_servers_that_a_smaller_cache_would_not_help_are_not_started_again(
    serve: dict[str, Any],
    saying: str,
    explanation: str,
    *,
    run_gate: Callable[..., pytest.RunResult],
    pretend: Callable[[str], Path],
    target: dict[str, Any],
) -> None:
    pretend("1")
    env = {"CROWDED": "both", "SAYING": saying, "FAKE_VLLM": json.dumps(FAST)}
    result = run_gate("auto", **target, env=env, serve=serve)
    result.assert_outcomes(errors=1)
    said = " ".join(result.outlines)
    assert explanation in said
    assert "starting again" not in said


def test_both_servers_cannot_be_handed_out_where_one_sleeps(
    pytester: pytest.Pytester, write_config: Callable[..., None], pretend: Callable[[str], Path]
) -> None:
    pretend("1")
    write_config(placement="auto")
    pytester.makepyfile("def test_mine(spec_servers):\n    pass\n")
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "spec_servers hands out both servers at once, and placement: swap, because the size of the target is not known*"
        ]
    )


def test_a_second_config_takes_over_the_sleeping_baseline(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    pretend: Callable[[str], Path],
    journal: Path,
) -> None:
    pretend("1")
    for name in ("one.json", "two.json"):
        write_config(name, fake={"journal": str(journal)}, placement="swap")
    write_gate("tpot_gain=0.1")
    result = pytester.runpytest("--specdec-config=one.json", "--specdec-config=two.json")
    result.assert_outcomes(passed=2)
    assert most_awake(journal) == 1
    starts = [arm for arm, _, event in events(journal) if event.startswith("start")]
    assert starts == ["baseline", "specdec", "specdec"]


def test_the_time_to_the_verdict_is_kept_in_its_parts(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    run_gate("together")
    comparison = comparison_of(pytester)
    assert comparison.time is not None
    assert comparison.time.rounds_s > 0
    assert comparison.warmup_s == pytest.approx(sum(record.duration_s for record in comparison.warm_ups))
    assert all(server.startup_s > 0 and server.stop_s is not None for server in comparison.servers)
