"""A disk that is full, a folder that cannot be written to, a log without end: one clear error, nothing half written."""

from __future__ import annotations

import errno
import functools
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.serving.result_folder import ResultFolder
from tests.plugin.started_run import WAIT_S, StartedRun, write_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., StartedRun]

FAKE: dict[str, Any] = {"tpot_ms": 1, "ttft_ms": 1, "answer_tokens": [8, 8]}
GATE = """
import pytest


@pytest.mark.spec_load(workload="tiny", concurrency=8, num_requests=8, max_tokens=8)
@pytest.mark.spec_slo(tpot_gain=-0.99)
def test_gate(spec_comparison):
    {body}
"""
FILL_THE_DISK = """
    import pathlib
    try:
        pathlib.Path(".specdec/filler").write_bytes(bytes(2 * 1024**2))
    except OSError:
        pass
"""
FLOODING_SERVER = """
import sys

from pytest_specdec.testing.fake_vllm import main

for _ in range({mib}):
    sys.stdout.write(("DEBUG the same line once more " * 8 + "\\n") * 4369)  # a MiB
sys.stdout.flush()
main()
"""
"""A server that has said much before it is up, its own settings last."""


@functools.cache
def can_mount() -> bool:
    """Whether a small file system can be mounted, in a name space that vanishes with its last process."""
    command = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


needs_mount = pytest.mark.skipif("not can_mount()", reason="nothing can be mounted here")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[StartedRun] = []

    def run(*, body: str = "pass", mount: str = "", after: str = "", fake: Any = (), **envelope: Any) -> StartedRun:
        """Run the gate with ``.specdec`` mounted with those options, and a shell command after it."""
        write_project(tmp_path, fake=FAKE | dict(fake), tests=GATE.format(body=body), **envelope)
        script = f'mkdir -p .specdec && mount -t tmpfs -o {mount} none .specdec && "$@"; code=$?; {after}\nexit $code'
        wrapper = ("unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh") if mount else ()
        runs.append(StartedRun(tmp_path, "--specdec-config=fake.json", wrapper=wrapper))
        runs[-1].process.wait(WAIT_S)
        return runs[-1]

    yield run
    for each in runs:
        each.end()


def assert_refused_before_any_server(run: StartedRun, reason: str) -> None:
    assert run.process.returncode == 1
    assert f"the folder for logs and results cannot be written to: {reason}" in run.output
    assert "make it writable, or give this run a folder of its own with --specdec-dir" in run.output
    assert "Traceback" not in run.output
    assert "starting the baseline server" not in run.output


def test_a_file_in_the_place_of_the_folder_is_an_error_before_any_server(start: Start, tmp_path: Path) -> None:
    (tmp_path / ".specdec").touch()
    run = start()
    assert run.process.returncode == 1
    assert "the folder for logs and results is a file and not a folder" in run.output
    assert f"See {tmp_path / '.specdec'}\n" in run.output
    assert "Free space" not in run.output
    assert "starting the baseline server" not in run.output


def test_a_file_above_the_folder_is_named_without_detours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "sub").mkdir()
    with pytest.raises(LaunchError) as refused:
        ResultFolder(tmp_path / "sub" / ".." / "file" / "results").take(timeout_s=1, progress=lambda _: None)
    assert str(refused.value).splitlines()[:2] == [
        "the folder for logs and results is a file and not a folder",
        f"  See {tmp_path / 'file'}",
    ]


def test_where_nothing_can_be_written_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(LaunchError, match="No space left on device"):
        ResultFolder(tmp_path / "new" / ".specdec").take(timeout_s=1, progress=lambda _: None)
    assert list(tmp_path.iterdir()) == []


@needs_mount
def test_a_folder_that_cannot_be_written_to_is_an_error_before_any_server(start: Start) -> None:
    assert_refused_before_any_server(start(mount="ro"), "Read-only file system")


@needs_mount
def test_a_full_disk_is_an_error_before_any_server(start: Start) -> None:
    assert_refused_before_any_server(start(mount="size=4k,nr_inodes=1"), "No space left on device")


@needs_mount
def test_a_disk_without_room_for_the_log_is_named(start: Start) -> None:
    chatty = {
        "log_lines": ["the same line once more " * 40] * 80,
        "exit_at_start": {"code": 1, "message": "X: said last"},
    }
    run = start(mount="size=64k", fake=chatty)
    assert run.process.returncode == 1
    assert "the disk with its log is full" in run.output
    assert "Free space, or give this run a folder of its own with --specdec-dir." in run.output


@needs_mount
def test_results_that_do_not_fit_are_named_and_nothing_is_half_written(start: Start) -> None:
    run = start(mount="size=1m", body=FILL_THE_DISK, after='ls -A .specdec | sed "s/^/left: /"')
    assert run.process.returncode == 1
    assert (
        f"the results could not be written: {run.folder}/.specdec/results.json: cannot be written: No space left"
        in run.output
    )
    assert "or choose another one with --specdec-dir" in run.output
    assert sorted(re.findall("left: (.*)", run.output)) == [".lock", "baseline", "fake", "filler"]


def test_a_flood_of_log_lines_neither_fills_the_memory_nor_hides_the_settings(start: Start, tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOODING_SERVER.format(mib=128))
    (tmp_path / "conftest.py").write_text("""
import resource

import pytest_specdec.core.stream_validity  # so that its memory is there before
import scipy.stats

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def pytest_collection_finish():
    global before
    before = peak_mib()

def pytest_unconfigure():
    print(f"grew by {peak_mib() - before} MiB")
""")
    run = start(command=[sys.executable, "flood.py"])
    grown_mib = int(run.output.rpartition("grew by ")[2].split()[0])
    assert grown_mib < 100
    (comparison,) = read_result(tmp_path / ".specdec" / "results.json").comparisons.values()
    assert [server.attested_tokens for server in comparison.servers] == [None, 3]


def test_a_log_without_end_ends_the_server(start: Start, tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOODING_SERVER.format(mib=40))
    (tmp_path / "conftest.py").write_text("""
from pytest_specdec.serving import process, server_log

server_log.GROWS_TO = process.GROWS_TO = 16 * 1024**2
""")
    run = start(command=[sys.executable, "flood.py"])
    assert run.process.returncode == 1
    assert "the baseline server wrote more than 0.0156 GiB to its log and was ended" in run.output
    assert "| DEBUG the same line once more" in run.output
    assert "See what repeats itself there." in run.output
    assert run.left_after(WAIT_S) == []
