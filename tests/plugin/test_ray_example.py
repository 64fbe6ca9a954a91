"""The conftest of example_suites/ray_cluster on a local Ray: servers are launched there, measured, and gone at the end.

Needs ``ray`` (``requirements/ray.lock``), and is skipped without.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_suites" / "ray_cluster"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def ray_home() -> Iterator[Path]:
    """A folder of its own for Ray, whose sockets need a short path; all its processes know it."""
    home = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield home
    for process in processes_of(home):  # whatever a failure has left
        with contextlib.suppress(psutil.Error):
            process.kill()
    shutil.rmtree(home, ignore_errors=True)


def processes_of(home: Path) -> list[psutil.Process]:
    """Ray's, and what it started: all inherit the environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("RAY_TMPDIR") == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_both_servers_run_on_ray_and_nothing_stays(
    pytester: pytest.Pytester, ray_home: Path, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> None:
    shutil.copy(EXAMPLE / "conftest.py", pytester.path)
    write_config()
    write_gate()
    own = {"RAY_TMPDIR": str(ray_home), "HOME": str(ray_home), "TMPDIR": str(ray_home), "GPUS_PER_SERVER": "0"}
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--specdec-config=fake.json"],
        env=alone | own | {"PYTHONPATH": str(ROOT)},
        cwd=pytester.path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "placement: together, because a plugin launches the servers" in done.stdout
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert [(server.arm, server.log) for server in comparison.servers] == [("baseline", ""), ("specdec", "")]
    assert all(server.stop_s is not None for server in comparison.servers)
    logs = {log.resolve() for log in ray_home.rglob("worker-*.err")}
    assert sum("Application startup complete." in log.read_text() for log in logs) == 2  # each in its actor's
    _, alive = psutil.wait_procs(processes_of(ray_home), timeout=60)
    assert alive == []
