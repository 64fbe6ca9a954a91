"""A page as a real browser shows it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)


@dataclass(frozen=True)
class View:
    """A size and a theme."""

    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"]


def browse(text: str, view: View) -> tuple[str, Image.Image]:
    """What the browser makes of a page: the document after its scripts, and the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.html").write_text(text, encoding="utf-8")
        command = [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",  # small in containers
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={folder}/profile",
            f"--window-size={view.width},{view.height}",
            f"--blink-settings=preferredColorScheme={0 if view.scheme == 'dark' else 1}",
            f"--screenshot={folder}/picture.png",
            "--dump-dom",
            f"file://{folder}/page.html",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        assert (folder / "picture.png").exists(), done.stderr
        with Image.open(folder / "picture.png") as picture:
            return done.stdout, picture.convert("RGB")
