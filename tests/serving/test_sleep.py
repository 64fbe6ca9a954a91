"""Sleep mode against the stand-in server, which has vLLM's three routes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_specdec.core.errors import InvalidMeasurement, LaunchError, ServerDied
from pytest_specdec.serving.process import Server
from pytest_specdec.serving.sleep import is_asleep, put_to_sleep, wake_up
from pytest_specdec.testing import FakeVllm
from tests.serving.conftest import WAIT_S


class Attached:
    """As much of a :class:`Server` as sleep mode asks for."""

    arm = "baseline"
    log_path = Path("baseline.log")

    def __init__(self, fake: FakeVllm) -> None:
        self._fake = fake
        self.base_url = fake.base_url
        self.served_name = fake.served_name

    def check_alive(self) -> None:
        if self._fake.exit_code is not None:
            raise ServerDied("gone")


Start = Callable[..., tuple[FakeVllm, Server]]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(*flags: str, **knobs: Any) -> tuple[FakeVllm, Server]:
            fake = FakeVllm(flags=flags or ("--enable-sleep-mode",), env={"VLLM_SERVER_DEV_MODE": "1"}, **knobs)
            stack.enter_context(fake)
            return fake, cast("Server", Attached(fake))

        yield begin


def test_it_sleeps_and_wakes(start: Start, tmp_path: Path) -> None:
    _, server = start(sleep_s=0.05, wake_s=0.05, journal=str(tmp_path / "journal"))
    assert is_asleep(server) is False
    put_to_sleep(server)
    assert is_asleep(server) is True
    wake_up(server)
    assert is_asleep(server) is False
    events = [line.split()[2] for line in (tmp_path / "journal").read_text().splitlines()]
    assert events == ["start", "sleep", "wake", "request"]  # the last one is thrown away


def assert_out_of_time(switch: Callable[..., None], server: Server, verb: str) -> None:
    with pytest.raises(InvalidMeasurement, match=f"did not {verb} within 0.3 s") as caught:
        switch(server, timeout_s=0.3)
    assert "placement: sequential" in caught.value.remedy


def test_one_that_never_falls_asleep_is_an_error_with_a_remedy(start: Start) -> None:
    _, server = start(hang_at_sleep=True)
    assert_out_of_time(put_to_sleep, server, "go to sleep")


def test_one_that_never_wakes_up_is_an_error_with_a_remedy(start: Start) -> None:
    _, server = start(hang_at_wake=True)
    put_to_sleep(server)
    assert_out_of_time(wake_up, server, "wake up")


def test_one_without_sleep_mode_says_what_is_missing(start: Start) -> None:
    _, server = start("--no-enable-prefix-caching")
    assert is_asleep(server) is None
    with pytest.raises(LaunchError, match="has no sleep mode") as caught:
        put_to_sleep(server)
    assert "--enable-sleep-mode" in caught.value.remedy


def test_one_that_died_is_not_called_slow(start: Start) -> None:
    fake, server = start()
    fake.set(hang_at_sleep=True)
    os.kill(fake.pid, signal.SIGKILL)
    fake.wait(WAIT_S)
    with pytest.raises(ServerDied):
        put_to_sleep(server, timeout_s=1)


def test_a_first_request_that_fails_is_an_error(start: Start) -> None:
    _, server = start(http_error={"status": 500, "every": 1})
    put_to_sleep(server)
    with pytest.raises(InvalidMeasurement, match="answered its first request with HTTP 500"):
        wake_up(server)
