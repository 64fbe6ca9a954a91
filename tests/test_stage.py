"""What the error of one server says about speculation, given the other one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.pool import FailedEarlier
from pytest_specdec.serving.readiness import PortTaken
from pytest_specdec.stage import with_the_other_side

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm


@pytest.mark.parametrize(
    ("arm", "up", "sentence"),
    [
        ("specdec", ["baseline"], "the baseline came up, speculation did not"),
        ("specdec", [], "speculation did not come up"),
        ("baseline", [], "the baseline did not come up, so nothing could be compared"),
        ("baseline", ["specdec"], "the speculating server came up, the baseline did not"),
    ],
)
def test_which_side_came_up_is_said_first(arm: Arm, up: list[Arm], sentence: str) -> None:
    failed = PortTaken("it failed", where="its log", remedy="do that")
    failed.launched = True
    error = with_the_other_side(failed, arm, up)
    assert (type(error), str(error)) == (PortTaken, f"{sentence}: it failed\n  See its log\n  do that")


@pytest.mark.parametrize(
    "error", [FailedEarlier("did not start earlier in this run: x"), LaunchError("vLLM is not installed")]
)
def test_where_no_server_was_launched_nothing_is_said_about_sides(error: LaunchError) -> None:
    assert with_the_other_side(error, "specdec", ["baseline"]) is error
