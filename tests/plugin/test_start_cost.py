"""The installed, unused plugin must cost nothing that a user could notice."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PROBE = """
import json, os, sys
import pytest
code = pytest.main(["--co", "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print("PROBE" + json.dumps({"code": int(code), "modules": sorted(sys.modules), "children": children}))
"""
HEAVY = {
    "aiohttp",
    "numpy",
    "scipy",
    "pydantic",
    "torch",
    "vllm",
    "prometheus_client",
    "psutil",
    "pynvml",
    "yaml",
    "asyncio",
}


def probe(folder: Path, *args: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, Any] = json.loads(done.stdout.split("PROBE", 1)[1])
    return answer


def test_unused_it_imports_nothing_heavy_and_starts_no_process(tmp_path: Path) -> None:
    with_plugin = probe(tmp_path)
    without = probe(tmp_path, "-p", "no:specdec")
    added = set(with_plugin["modules"]) - set(without["modules"])
    assert "pytest_specdec.plugin" in added
    assert not {name.partition(".")[0] for name in added} & HEAVY
    assert with_plugin["children"] == []


def test_collecting_with_a_config_reads_it_and_imports_nothing_that_measures(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(
        '{"model": "m", "speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}'
    )
    (tmp_path / "test_gate.py").write_text(
        "import pytest\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(spec_comparison): pass\n"
    )
    with_config = probe(tmp_path, "--specdec-config=c.json")
    added = {name.partition(".")[0] for name in set(with_config["modules"]) - set(probe(tmp_path)["modules"])}
    assert "pydantic" in added
    assert not added & {"aiohttp", "numpy", "scipy", "torch", "vllm", "prometheus_client"}
    assert with_config["children"] == []
    assert not (tmp_path / ".specdec").exists()


def test_collecting_gates_without_a_config_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_gate.py").write_text(
        "import pytest\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(spec_comparison): pass\n"
    )
    with_plugin = probe(tmp_path)
    without = probe(tmp_path, "-p", "no:specdec")
    added = set(with_plugin["modules"]) - set(without["modules"])
    assert "pytest_specdec.core.objectives" in added
    assert not {name.partition(".")[0] for name in added} & HEAVY
