"""The documents as a site: every page has its place, every link and anchor leads somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FETCHED = re.compile(r"<(?:link|script|img)[^>]+(?:href|src)=\"(https?://[^\"]+)")


def test_the_documents_build_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed (requirements/dev.lock)")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        # An advertisement of its successor, on standard error.
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(path for path in (tmp_path / "site").rglob("index.html"))
    assert len(pages) == len(list((ROOT / "docs").rglob("*.md")))
    assert [url for page in pages for url in FETCHED.findall(page.read_text(encoding="utf-8"))] == []
