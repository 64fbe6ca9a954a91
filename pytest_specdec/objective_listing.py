"""A plugin for ``pytest --collect-only`` that writes down which objectives the collected tests declare; see ``pytest-specdec rules``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_specdec.canary_gates import CONFIG_ID
from pytest_specdec.mark_merging import requirements_for
from pytest_specdec.marker import is_gate

FILE = "SPECDEC_OBJECTIVE_LISTING"
"""Environment variable: where to write."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """One entry per objective of a test."""
    found = [
        {"test": item.nodeid, "objective": one.objective, "required": one.required, "part": one.part}
        for item in session.items
        if isinstance(item, pytest.Function) and is_gate(item)
        for one in requirements_for(item, CONFIG_ID)
    ]
    Path(os.environ[FILE]).write_text(json.dumps(found), encoding="utf-8")
