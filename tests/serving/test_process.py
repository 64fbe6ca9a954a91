"""One server, as a real process: when it is ready, how it fails, that it ends."""

from __future__ import annotations

import gc
import http.client
import http.server
import os
import re
import signal
import sys
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specdec.core.errors import LaunchError, ServerDied
from pytest_specdec.serving.readiness import PortTaken
from tests.serving.conftest import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.serving.conftest import Eventually, Hands, Launch, MakePlan

    Running = Callable[[Iterable[psutil.Process]], list[psutil.Process]]


def test_a_server_is_ready_when_it_has_generated_a_token(launch: Launch, make_plan: MakePlan) -> None:
    plan = make_plan()
    server = launch(plan)
    assert server.base_url == f"http://127.0.0.1:{plan.port}"
    assert server.served_name == plan.served_name
    assert server.version == "0.26.0"
    assert server.startup_s > 0
    server.check_alive()


def test_a_server_without_a_version_is_accepted(launch: Launch, make_plan: MakePlan) -> None:
    assert launch(make_plan("no-version")).version is None


def test_the_record_masks_secrets_and_names_every_vllm_variable(
    launch: Launch, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    monkeypatch.setenv("VLLM_PORT", "1234")
    plan = make_plan(env={"HF_TOKEN": "hf_secret", "OMP_NUM_THREADS": "2"}, unset_env=("VLLM_PORT",))
    record = launch(plan, launch=1).record
    assert record.env.keys() == {"HF_TOKEN", "OMP_NUM_THREADS", "VLLM_LOGGING_LEVEL"}
    assert "hf_secret" not in record.env["HF_TOKEN"]
    assert (record.arm, record.version, record.launch) == ("specdec", "0.26.0", 1)


def test_the_log_holds_the_output_and_nothing_of_an_earlier_launch_is_quoted(
    launch: Launch, make_plan: MakePlan, tmp_path: Path
) -> None:
    log = tmp_path / "specdec.log"
    log.write_text("ValueError: from last week\n")
    with pytest.raises(LaunchError) as caught:
        launch(make_plan("exits", "1"), log_path=log)
    assert "last week" not in str(caught.value)
    assert log.read_text().startswith("ValueError: from last week\nusage:")


def test_a_refused_flag_is_quoted_at_once(launch: Launch, make_plan: MakePlan) -> None:
    with pytest.raises(
        LaunchError,
        match=r"specdec server exited with code 2 after \d s: this vLLM has no --speculative-model: .*\n"
        r"  vLLM says: api_server.py: error: unrecognized arguments: --speculative-model x\n",
    ):
        launch(make_plan("exits", "2"))


def test_a_failed_launch_names_its_log(launch: Launch, make_plan: MakePlan, tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(make_plan("exits", "1"))
    assert caught.value.where == str(tmp_path / "logs" / "specdec.log")


def test_a_command_that_cannot_be_executed_is_named(launch: Launch, make_plan: MakePlan) -> None:
    with pytest.raises(LaunchError, match=r"could not be started: .*No such file.*\n") as caught:
        launch(make_plan(argv=("no-such-vllm", "serve")))
    assert "'no-such-vllm'" in caught.value.remedy


def test_a_silent_server_is_given_up(launch: Launch, make_plan: MakePlan) -> None:
    with pytest.raises(LaunchError, match="wrote nothing to its log for 0 s"):
        launch(make_plan("silent"), silence_timeout_s=0.3)


@pytest.fixture
def log(tmp_path: Path) -> Callable[[], str]:
    """What the server has written so far."""
    return (tmp_path / "logs" / "specdec.log").read_text


def test_a_server_whose_log_grows_is_waited_for(
    launch: Launch, make_plan: MakePlan, hands: Hands, log: Callable[[], str], tmp_path: Path
) -> None:
    phases: list[str] = []
    written: set[int] = set()

    def progress(phase: str) -> None:
        """Every step is seen, takes 40 of the 60 seconds of silence that are allowed, and then the server goes on."""
        step = len(phases)
        if step in written:  # and the log has been followed since
            (tmp_path / f"after step {step}").touch()
            phases.append(phase)
            hands.sleep(40)
        elif f"step {step}\n" in log():
            written.add(step)

    launch(make_plan("slow", str(tmp_path)), silence_timeout_s=60, startup_timeout_s=600, progress=progress)
    assert phases == ["specdec server: loading weights"] * 2 + ["specdec server: capturing CUDA graphs"] * 2


def test_a_busy_server_that_never_gets_ready_meets_the_hard_cap(
    launch: Launch, make_plan: MakePlan, hands: Hands
) -> None:
    def progress(phase: str) -> None:
        hands.sleep(4 * ("loading weights" in phase))

    with pytest.raises(LaunchError, match="not ready after 3 s, while loading weights") as caught:
        launch(make_plan("busy"), startup_timeout_s=3.0, progress=progress)
    assert "startup_timeout_s" in caught.value.remedy


def test_a_server_that_accepts_and_never_answers_meets_the_hard_cap(
    launch: Launch, make_plan: MakePlan, hands: Hands, log: Callable[[], str]
) -> None:
    with pytest.raises(LaunchError, match="not ready after 1 s"):
        launch(
            make_plan("hangs-on-models"),
            startup_timeout_s=1.0,
            progress=lambda _: hands.sleep(2 * ("was asked for its models" in log())),
        )


def test_a_server_that_refuses_to_generate_is_not_ready(
    launch: Launch, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_specdec.serving.process._DYING_S", 0.0)
    with pytest.raises(LaunchError, match="answered its first request with HTTP 400: this model does not generate"):
        launch(make_plan("refuses"))


def test_an_engine_that_dies_at_the_first_request_is_quoted(
    launch: Launch, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_specdec.serving.process._DYING_S", WAIT_S)
    with pytest.raises(
        LaunchError, match=r"exited with code 1 after .*: this needs Triton.*\n  vLLM says: RuntimeError"
    ):
        launch(make_plan("engine-dies"))


def test_a_demanded_api_key_is_explained(launch: Launch, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_specdec.serving.process._DYING_S", 0.0)
    with pytest.raises(LaunchError, match="VLLM_API_KEY"):
        launch(make_plan("api-key"))


@pytest.fixture
def foreign_port() -> Iterator[int]:
    """A server that answers every GET with 200, as an old vLLM answers /health."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_another_server_on_the_port_is_never_taken_for_ours(
    launch: Launch, make_plan: MakePlan, foreign_port: int
) -> None:
    with pytest.raises(PortTaken, match=f"another server answers on port {foreign_port}"):
        launch(make_plan("silent", port=foreign_port))


def test_a_child_that_finds_its_port_taken_says_so(launch: Launch, make_plan: MakePlan, foreign_port: int) -> None:
    complaint = f"import sys; sys.exit('OSError: [Errno 98] Address already in use: {foreign_port}')"
    with pytest.raises(PortTaken, match=f"port {foreign_port}"):
        launch(make_plan(argv=(sys.executable, "-c", complaint), port=foreign_port))


def test_proxies_do_not_matter_on_the_loopback(
    launch: Launch, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    launch(make_plan())


def test_a_server_that_dies_later_is_noticed_with_its_log(
    launch: Launch, make_plan: MakePlan, eventually: Eventually
) -> None:
    plan = make_plan("serves", "3")
    server = launch(plan)
    connection = http.client.HTTPConnection("127.0.0.1", plan.port)
    connection.request("GET", "/die")
    with pytest.raises(OSError):
        connection.getresponse()
    connection.close()

    def died() -> bool:
        try:
            server.check_alive()
        except ServerDied as error:
            return "exited with code 3 while it was needed" in str(error) and "    | open " in str(error)
        return False

    eventually(died)


def test_a_killed_server_is_reported_by_its_signal(
    launch: Launch, make_plan: MakePlan, eventually: Eventually, running: Running
) -> None:
    server = launch(make_plan())
    family = [psutil.Process(pid) for pid in server.pids()]
    os.kill(_stub(server.pids()).pid, signal.SIGKILL)
    eventually(lambda: not running(family))
    with pytest.raises(ServerDied, match=r"was killed by signal 9 \(SIGKILL\)") as caught:
        server.check_alive()
    assert "memory" in caught.value.remedy


def test_stopping_twice_and_a_dead_server_is_fine(launch: Launch, make_plan: MakePlan) -> None:
    server = launch(make_plan())
    os.kill(_stub(server.pids()).pid, signal.SIGKILL)
    server.stop()
    server.stop()
    with pytest.raises(ServerDied, match="has been stopped"):
        server.check_alive()


@pytest.mark.parametrize("mode", ["serves", "deaf", "family"])
def test_after_stop_no_process_is_left(launch: Launch, make_plan: MakePlan, running: Running, mode: str) -> None:
    server = launch(make_plan(mode), grace_s=0.3)
    family = [psutil.Process(pid) for pid in server.pids()]
    assert len(family) == (4 if mode == "family" else 3)  # two supervising, the server, the orphan
    server.stop()
    assert running(family) == []


def test_a_failed_launch_leaves_no_process(
    launch: Launch, make_plan: MakePlan, hands: Hands, log: Callable[[], str]
) -> None:
    orphans: list[psutil.Process] = []

    def progress(_: str) -> None:
        if found := re.findall(r"orphan (\d+)\n", log()):
            orphans.append(psutil.Process(int(found[0])))
            hands.sleep(2)

    with pytest.raises(LaunchError, match="wrote nothing"):
        launch(make_plan("family-loads"), silence_timeout_s=3.0, grace_s=0.3, progress=progress)
    assert not orphans[0].is_running()


def test_the_server_inherits_neither_pipes_nor_locks(launch: Launch, make_plan: MakePlan, tmp_path: Path) -> None:
    lock = os.open(tmp_path / "a.lock", os.O_RDWR | os.O_CREAT)
    server = launch(make_plan(), private_fds=(lock,))
    os.close(lock)
    opened = re.findall(r"open (.*)", server.log_path.read_text())[0]
    assert "pipe:" not in opened
    assert "a.lock" not in opened
    assert opened.split() == ["/dev/null", str(server.log_path), str(server.log_path)]


def test_the_stop_command_runs_after_the_end(launch: Launch, make_plan: MakePlan, tmp_path: Path) -> None:
    server = launch(make_plan(stop_command=("sh", "-c", "echo stopped > stopped.txt")))
    server.stop()
    assert (tmp_path / "stopped.txt").read_text() == "stopped\n"


def test_many_starts_leak_nothing(launch: Launch, make_plan: MakePlan, tmp_path: Path) -> None:
    me = psutil.Process()

    def holds() -> tuple[int, int, set[psutil.Process]]:
        gc.collect()
        return me.num_fds(), threading.active_count(), set(me.children())

    plan = make_plan()
    launch(plan).stop()
    before = holds()
    for cycle in range(20):
        launch(plan, log_path=tmp_path / f"{cycle}.log").stop()
    after = holds()
    assert (after[:2], after[2] - before[2]) == (before[:2], set())


def test_an_interrupt_while_loading_leaves_no_process(launch: Launch, make_plan: MakePlan) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        launch(make_plan("silent"), progress=interrupt)
    assert set(psutil.Process().children()) <= before


def _stub(pids: Iterable[int]) -> psutil.Process:
    return next(
        process for process in map(psutil.Process, pids) if any("stub_server.py" in word for word in process.cmdline())
    )
