"""Following a log: growth, phases, lines."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.serving.server_log import ServerLog, plain_lines

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_colours_and_rewritten_progress_bars_are_flattened() -> None:
    raw = b"\x1b[1;36m(EngineCore pid=7)\x1b[0;0m hello\r\nshards: 0%\rshards: 50%\rshards: 100%\r\n\n  \nlast"
    assert plain_lines(raw) == ["(EngineCore pid=7) hello", "shards: 100%", "last"]


@given(st.binary())
def test_any_bytes_give_lines_without_escapes_or_line_ends(raw: bytes) -> None:
    for line in plain_lines(raw):
        assert line.strip()
        assert not {"\r", "\n"} & set(line)


def test_silence_counts_from_the_last_growth(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "log"
    log = ServerLog(path, clock=clock)
    clock.now = 110.0
    log.follow()
    assert log.silent_s == 10.0
    path.write_text("one\n")
    log.follow()
    assert log.silent_s == 0.0
    clock.now = 115.0
    log.follow()
    assert log.silent_s == 5.0


def test_each_phase_has_its_time(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "log"
    log = ServerLog(path, clock=clock)
    for line, after_s in (
        ("hello", 4.0),
        ("Starting to load model m...", 10.0),
        ("KV cache size: 9", 5.0),
        ("Starting to load model n", 1.0),
    ):
        clock.now += after_s
        with path.open("a") as file:
            file.write(line + "\n")
        log.follow()
    clock.now += 2.0
    assert log.phases_s == {"starting": 14.0, "loading weights": 5.0 + 2.0, "warming up": 1.0}


def test_the_phase_follows_vllms_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ServerLog(path)
    phases = []
    for line in (
        "(APIServer pid=1) WARNING 07-01 12:00:00 [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, and ...",
        "(EngineCore pid=7) INFO 07-01 12:00:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: ...",
        "(EngineCore pid=7) INFO 07-01 12:00:00 [gpu_model_runner.py:5039] Starting to load model m...",
        "(EngineCore pid=7) INFO 07-01 12:00:00 [gpu_model_runner.py:5071] Loading drafter model...",
        "(EngineCore pid=7) INFO 07-01 12:00:00 [gpu_model_runner.py:5149] Model loading took 0.27 GiB memory and 1.0 seconds",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 4%",
        "nothing that we know",
        "(APIServer pid=1) INFO:     Application startup complete.",
    ):
        with path.open("a") as file:
            file.write(line + "\n")
        log.follow()
        phases.append(log.phase)
    assert phases == [
        "starting",
        "starting the engine",
        "loading weights",
        "loading the draft",
        "profiling memory",
        "capturing CUDA graphs",
        "capturing CUDA graphs",
        "waiting for the first token",
    ]


def test_what_an_earlier_launch_wrote_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    log = ServerLog(path)
    with path.open("a") as file:
        file.write("new 1\nnew 2\nnew 3\n")
    assert log.lines() == ["new 1", "new 2", "new 3"]


def test_of_an_endless_log_start_and_end_are_read_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ServerLog(path)
    with path.open("wb") as file:
        file.write(b"first\n" + b"early\n" * 400_000)  # more than is read of the start
        file.truncate(3 * 1024**3)  # a hole, which takes no space on the disk
        file.seek(0, 2)
        file.write(b"\nKV cache size: 1 tokens\nlast\n")
    tracemalloc.start()
    lines = log.lines()
    log.follow()
    peak_mib = tracemalloc.get_traced_memory()[1] / 1024**2
    tracemalloc.stop()
    assert (lines[0], lines[-1]) == ("first", "last")
    assert log.phase == "warming up"
    assert peak_mib < 100
    assert log.overgrown


def test_the_line_at_the_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ServerLog(path)
    path.write_text("".join(f"KV cache size: {number:09d} tokens\n" for number in range(200_000)))
    assert all(len(line) == len("KV cache size: 000000000 tokens") for line in log.lines()[:30_000])


def test_what_an_earlier_launch_wrote_does_not_make_a_log_long(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)
    log = ServerLog(path)
    with path.open("ab") as file:
        file.write(b"new\n")
    assert not log.overgrown
    assert log.lines() == ["new"]
