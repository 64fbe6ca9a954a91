"""The machine's CPU, cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.serving.host import Host, read_host

if TYPE_CHECKING:
    from pathlib import Path


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_cpu_is_named_as_the_kernel_names_it(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC  7B13\n"})
    assert read_host(root).cpu == "AMD EPYC 7B13"


def test_without_cpuinfo_the_architecture_is_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert read_host(tmp_path).cpu == "aarch64"


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1), ("9900000 100000", 8)]
)
def test_a_containers_quota_bounds_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    assert read_host(tree(tmp_path, {"sys/fs/cgroup/cpu.max": f"{quota}\n"})).cores == cores


@pytest.mark.parametrize(("limit", "gib"), [("max", 16.0), (str(4 * 1024**3), 4.0)])
def test_a_containers_limit_bounds_the_memory(tmp_path: Path, limit: str, gib: float) -> None:
    root = tree(
        tmp_path, {"proc/meminfo": f"MemTotal: {16 * 1024**2} kB\nMemFree: 1 kB\n", "sys/fs/cgroup/memory.max": limit}
    )
    assert read_host(root).memory_gib == gib


def test_a_host_reads_as_in_the_report() -> None:
    assert str(Host("AMD EPYC 7B13", 2, 8.0)) == "AMD EPYC 7B13, 2 cores"
    assert str(Host("AMD EPYC 7B13", 1, None)) == "AMD EPYC 7B13, 1 core"


def test_this_machine_can_be_read() -> None:
    host = read_host()
    assert host.cores >= 1
    assert host.memory_gib is not None
