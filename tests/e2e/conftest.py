"""What the end-to-end tests share: the model, made by ``make model``, and projects to run pytest in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.live_project import LiveProject
from tests.e2e.tiny_mtp import make_tiny_mtp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder drives real vLLM, for longer than a time-out for unit tests allows."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """SmolLM2-135M-Instruct. Missing is a failure: a skipped end-to-end test would look like a passed one."""
    folder = Path(os.environ.get("SPECDEC_MODEL") or ROOT / "models" / "smollm2-135m-instruct")
    if not (folder / "config.json").is_file():
        pytest.fail(f"no model at {folder}: run `make model`, or set SPECDEC_MODEL to its folder", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def tiny_folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that loads in no time; see :mod:`tiny_mtp`."""
    return make_tiny_mtp(tmp_path_factory.mktemp("tiny") / "tiny-mimo", model_folder)


@pytest.fixture(scope="session")
def make_project(
    model_folder: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Callable[[str], LiveProject]]:
    """Makes projects, and ends whatever still runs in them."""
    projects = []

    def make(name: str) -> LiveProject:
        project = LiveProject(tmp_path_factory.mktemp(name))
        (project.folder / "models").mkdir()
        (project.folder / "models" / "smollm2-135m-instruct").symlink_to(model_folder)
        (project.folder / "models" / "tiny-mimo").symlink_to(tiny_folder)
        (project.folder / "drafts").symlink_to(ROOT / "example_suites" / "drafts")
        projects.append(project)
        return project

    yield make
    for project in projects:
        project.interrupt()
