"""The offline engine's process: which words and requests reach it, what comes back, how its failures read, and that it is ended."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.core.config import SpecConfig
from pytest_specdec.core.errors import InvalidMeasurement, LaunchError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.serving.offline import OfflineRequest, OfflineRun, run_offline
from tests.serving.conftest import WAIT_S
from tests.serving.stand_in_vllm import make_stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.serving.conftest import Eventually

    Running = Callable[[Iterable[psutil.Process]], list[psutil.Process]]

SERVER = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
CHAT = OfflineRequest(max_tokens=4, seed=7, messages=({"role": "user", "content": "Hi."},))
TEXT = OfflineRequest(max_tokens=3, seed=8, prompt="Once upon")


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., SpecConfig]:
    packages = make_stand_in(tmp_path / "packages")

    def make(mode: str = "", command: tuple[str, ...] = SERVER, serve: dict[str, Any] | None = None) -> SpecConfig:
        return SpecConfig(
            id="ngram",
            path=tmp_path / "ngram.json",
            model="target",
            speculative_config={"method": "ngram", "num_speculative_tokens": 2},
            serve=serve or {},
            command=command,
            env={"PYTHONPATH": str(packages), "STAND_IN": mode},
        )

    return make


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., OfflineRun]:
    def start(config: SpecConfig, arm: str = "specdec", *requests: OfflineRequest) -> OfflineRun:
        return run_offline(
            config,
            "specdec" if arm == "specdec" else "baseline",
            requests or (CHAT, TEXT),
            LoadSpec(),
            directory=tmp_path / "out",
            lock_directory=tmp_path / "locks",
        )

    return start


def test_answers_come_back_in_the_order_of_the_requests(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]
) -> None:
    ran = run(make_config(), "specdec", TEXT, CHAT)
    assert ran.token_ids == ((1009, 1, 2), (1, 1, 2, 3))
    assert ran.finish_reasons == ("length", "length")
    assert ran.version == "0.99.0"


def test_counters_are_summed_over_engines(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]
) -> None:
    counters = run(make_config()).counters
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (20, 40, 18)
    assert counters.accepted_per_position == (12, 6)
    assert (counters.generation_tokens, counters.decode_steps) == (7, 30)


def test_the_baseline_counts_no_drafts(make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]) -> None:
    counters = run(make_config(), "baseline").counters
    assert counters.drafts is None
    assert counters.accepted_per_position is None


def test_chats_pass_through_the_servers_chat_template(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]
) -> None:
    ran = run(make_config(serve={"chat_template": "{{ messages }}"}), "specdec", CHAT)
    assert ran.token_ids[0][0] == 101  # the stand-in's way of saying that it got a template


def test_nothing_but_the_log_is_left_in_the_folder(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun], tmp_path: Path
) -> None:
    ran = run(make_config())
    assert [path.name for path in (tmp_path / "out" / "ngram").iterdir()] == ["offline-specdec.log"]
    assert ran.log.endswith("ngram/offline-specdec.log")


def test_a_failed_start_is_explained_as_a_servers_is(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]
) -> None:
    with pytest.raises(LaunchError, match=r"the offline engine \(specdec\) exited with code 1: .*KV cache") as caught:
        run(make_config("fails"))
    assert "gpu_memory_utilization" in str(caught.value)


def test_counters_of_other_answers_are_refused(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun]
) -> None:
    with pytest.raises(InvalidMeasurement, match="returned 7 tokens and counted 8"):
        run(make_config("miscounts"))


def test_a_container_is_refused_before_anything_starts(
    make_config: Callable[..., SpecConfig], run: Callable[..., OfflineRun], tmp_path: Path
) -> None:
    with pytest.raises(LaunchError, match="needs the interpreter") as caught:
        run(make_config(command=("docker", "run", "vllm/vllm-openai")))
    assert "command" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_caller_ends_the_engine_and_its_workers(
    make_config: Callable[..., SpecConfig],
    tmp_path: Path,
    eventually: Eventually,
    running: Running,
    number: signal.Signals,
) -> None:
    config = tmp_path / "ngram.json"
    config.write_text(make_config("hangs").model_dump_json(include={"model", "speculative_config", "command", "env"}))
    caller = subprocess.Popen(
        [sys.executable, "-m", "pytest_specdec.cli", "offline", str(config), "--dir", str(tmp_path / "out")],
        stderr=subprocess.DEVNULL,
        env={**psutil.Process().environ(), "TMPDIR": str(tmp_path)},
    )
    log = tmp_path / "out" / "ngram" / "offline-specdec.log"
    eventually(lambda: log.exists() and re.search(r"worker \d+\n", log.read_text()))
    found = re.search(r"worker (\d+)\n", log.read_text())
    assert found is not None
    family = [psutil.Process(int(found[1])), *psutil.Process(caller.pid).children(recursive=True)]
    caller.send_signal(number)
    caller.wait(WAIT_S)
    eventually(lambda: not running(family))
