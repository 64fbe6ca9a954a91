"""What the documents show works: configs load, tests collect, commands exist, examples run, every name is described."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "example_suites").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[pytest.param]:  # type: ignore[valid-type] # pytest.param is a function by type
    found = []
    for document in DOCUMENTS:
        for number, match in enumerate(BLOCK.finditer(document.read_text())):
            if match[1] in languages:
                found.append(pytest.param(match[2], id=f"{document.relative_to(ROOT)}-{number}"))
    return found


@pytest.mark.parametrize("text", blocks("python"))
def test_a_python_block_runs_or_collects(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "def test_" in text:
        (tmp_path / "test_block.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", "test_block.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        monkeypatch.chdir(tmp_path)
        compile(text, "block", "exec")


@pytest.mark.parametrize("text", blocks("json"))
def test_a_json_block_that_is_a_config_loads(text: str, tmp_path: Path) -> None:
    content = json.loads(text)
    if {"method", "speculative_config"} & set(content):
        check_config(text, tmp_path, "block.json")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_a_yaml_block_that_is_a_config_loads(text: str, tmp_path: Path) -> None:
    if re.search(r"^(speculative_config|method):", text, re.MULTILINE):
        check_config(text, tmp_path, "block.yaml")


def check_config(text: str, tmp_path: Path, name: str) -> None:
    from pytest_specdec.core.config import load_configs

    # Where the quickstart's configs lie, so that paths which are relative to them lead somewhere.
    folder = tmp_path / "example_suites" / "quickstart"
    for known in (
        "models/smollm2-135m-instruct",
        "example_suites/drafts/smollm2-135m-eagle3",
        "example_suites/drafts/smollm2-135m-draft",
    ):
        (tmp_path / known).mkdir(parents=True)
    folder.mkdir()
    path = folder / name
    path.write_text(text)
    configs, _ = load_configs([path], default_model="target")
    assert configs[0].speculative_config


@pytest.mark.parametrize("text", blocks("console"))
def test_commands_exist(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    known = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        words = line[2:].partition("#")[0].split()
        if words[0] == "make":
            for target in words[1:]:
                assert re.search(rf"^{re.escape(target)}\b.*:", makefile, re.MULTILINE), (
                    f"no target {target!r} in the Makefile"
                )
        for option in re.findall(r"--specdec-[a-z-]+", line):
            assert option in known, f"{option} is no option"
        if words[0] == "pytest-specdec" and len(words) > 1 and not words[1].startswith("-"):
            done = subprocess.run(
                [sys.executable, "-m", "pytest_specdec.cli", words[1], "--help"],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, f"pytest-specdec has no command {words[1]!r}"


def test_every_objective_and_condition_is_described() -> None:
    from pytest_specdec.core.load_spec import LOAD_FIELDS
    from pytest_specdec.core.objectives import REGISTRY

    text = (ROOT / "docs" / "reference" / "marks.md").read_text()
    family = re.compile(r"(ttft|tpot|itl|e2el|chunk_gap)_(mean|p50|p90|p95|p99)_ms")
    missing = [name for name in (*REGISTRY, *LOAD_FIELDS) if f"`{name}" not in text and not family.fullmatch(name)]
    assert missing == []


def test_every_option_is_described() -> None:
    declared = (ROOT / "pytest_specdec" / "options.py").read_text()
    text = (ROOT / "docs" / "reference" / "options.md").read_text()
    names = set(re.findall(r"\"(--specdec-[a-z-]+|specdec_[a-z_]+)\"", declared))
    names -= {name for name in names if name.startswith("specdec_") and f"--{name.replace('_', '-')}" in names}
    assert names
    assert [name for name in sorted(names) if name not in text] == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
