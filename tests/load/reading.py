"""How tests read a workload file, and what it is refused for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.workload_options import WorkloadOptions
from pytest_specdec.load.workload import Workload, read_workload

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, **options: Any) -> Workload:
    """The workload, with the options of a config's entry."""
    return read_workload(path, name="test", options=WorkloadOptions(**options))


def refusal(path: Path, **options: Any) -> str:
    """The message with which it is refused."""
    with pytest.raises(WorkloadError) as refused:
        read(path, **options)
    return str(refused.value)
