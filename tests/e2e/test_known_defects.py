"""What the documents say is wrong in the pinned vLLM still is: a repaired one makes them, and the advice that names it, out of date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "sampling-tests.md"


def test_the_cpu_never_receives_the_temperature_of_drafts() -> None:
    (code,) = re.findall(r"^```python\n(import torch, vllm.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "tensor([-1., -1., -1., -1., -1.])"
