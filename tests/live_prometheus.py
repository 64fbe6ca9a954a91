"""Debian's Prometheus for tests: with series that a test wrote down, or scraping servers that run."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no Prometheus here (Debian: apt-get install prometheus)",
)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


POINTS = 121
STEP_S = 15
END_S = math.floor(time.time()) - 3600
"""An hour ago, so that everything lies in the past."""


def counter(name: str, labels: str, per_point: float, *, reset_at: int | None = None) -> list[str]:
    def value(point: int) -> float:
        return per_point * (point if reset_at is None or point < reset_at else point - reset_at)

    lines = [f"# TYPE {name.removesuffix('_total')} counter"] if name.endswith("_total") else []
    start = END_S - (POINTS - 1) * STEP_S
    return [*lines, *(f"{name}{{{labels}}} {value(point)} {start + point * STEP_S}" for point in range(POINTS))]


def server(labels: str, *, speculating: bool, reset_at: int | None = None) -> dict[str, list[str]]:
    """Samples by family."""
    families = {
        "vllm:generation_tokens_total": counter("vllm:generation_tokens_total", labels, 100, reset_at=reset_at),
        "vllm:request_success_total": [
            *counter("vllm:request_success_total", f'{labels},finished_reason="stop"', 9),
            *counter("vllm:request_success_total", f'{labels},finished_reason="error"', 1)[1:],
        ],
    }
    sums_s = 0.2 if speculating else 0.3
    for name in ("request_time_per_output_token", "time_to_first_token", "e2e_request_latency", "inter_token_latency"):
        family = f"vllm:{name}_seconds"
        families[family] = [f"# TYPE {family} histogram"]
        for bound, count in (("0.01", 0), ("0.025", 8), ("+Inf", 10)):
            families[family] += counter(f"{family}_bucket", f'{labels},le="{bound}"', count)
        families[family] += [*counter(f"{family}_count", labels, 10), *counter(f"{family}_sum", labels, sums_s)]
    if speculating:
        for name, count in (("num_drafts", 40), ("num_draft_tokens", 80), ("num_accepted_tokens", 50)):
            families[f"vllm:spec_decode_{name}_total"] = counter(f"vllm:spec_decode_{name}_total", labels, count)
        per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        families[per_position] = [
            *counter(per_position, f'{labels},position="0"', 30),
            *counter(per_position, f'{labels},position="1"', 20)[1:],
        ]
    return families


def exposition(*servers: dict[str, list[str]]) -> str:
    """OpenMetrics wants each family in one piece."""
    lines: list[str] = []
    for family in dict.fromkeys(name for one in servers for name in one):
        parts = [one[family] for one in servers if family in one]
        lines += [parts[0][0], *(line for part in parts for line in part if not line.startswith("#"))]
    return "\n".join([*lines, "# EOF", ""])


@contextlib.contextmanager
def with_series(folder: Path, openmetrics: str) -> Iterator[str]:
    """A Prometheus that has scraped what the text says, at its time stamps; the address."""
    (folder / "series.txt").write_text(openmetrics)
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "series.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    with _running(folder, {"scrape_configs": []}) as url:
        yield url


@contextlib.contextmanager
def scraping(folder: Path, targets: Mapping[str, str]) -> Iterator[str]:
    """A Prometheus that scrapes each address every second; the name becomes the label ``version``."""
    jobs = [
        {
            "job_name": version,
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "static_configs": [{"targets": [address.removeprefix("http://")], "labels": {"version": version}}],
        }
        for version, address in targets.items()
    ]
    with _running(folder, {"scrape_configs": jobs}) as url:
        yield url


@contextlib.contextmanager
def _running(folder: Path, config: Mapping[str, object]) -> Iterator[str]:
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address={address}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 60
            while not _ready(address):
                assert process.poll() is None, (folder / "prometheus.log").read_text()
                assert time.monotonic() < deadline, "Prometheus was not ready in time"
                time.sleep(0.05)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def _ready(address: str) -> bool:
    try:
        with _OPENER.open(f"http://{address}/-/ready", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
