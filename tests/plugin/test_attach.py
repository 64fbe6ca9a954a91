"""Gates on servers that something else started: measured as any other, and left running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.testing import FakeVllm
from tests.exact_times import STAMPED
from tests.plugin.conftest import FAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPECULATION = {"method": "ngram", "num_speculative_tokens": 3}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[FakeVllm, FakeVllm]]:
    """Both serve a model of the same name."""
    knobs: dict[str, Any] = FAST | STAMPED
    with (
        FakeVllm(model="fake-model", **knobs) as baseline,
        FakeVllm(model="fake-model", speculative_config=SPECULATION, **knobs) as specdec,
    ):
        yield baseline, specdec


@pytest.fixture
def run_gate(
    pytester: pytest.Pytester, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> Callable[..., pytest.RunResult]:
    def run(attach: str, *arguments: str, slo: str = "tpot_gain=0.1", **envelope: Any) -> pytest.RunResult:
        # A command that would fail: nothing may be started.
        write_config(**{"command": ["false"], "speculative_config": SPECULATION} | envelope)
        write_gate(slo)
        return pytester.runpytest("--specdec-config=fake.json", f"--specdec-attach={attach}", *arguments)

    return run


def test_a_gate_is_judged_on_running_servers_and_leaves_them_running(
    servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    baseline, specdec = servers
    for _ in range(2):
        result = run_gate(f"{baseline.base_url},{specdec.base_url}")
        result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*placement: together, because both servers run already*"])
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert [server.attached for server in comparison.servers] == [baseline.base_url, specdec.base_url]
    assert [server.arm for server in comparison.servers] == ["baseline", "specdec"]
    assert not list((pytester.path / ".specdec").rglob("*.log"))


def test_a_miss_is_a_failure(servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult]) -> None:
    run_gate(f"{servers[0].base_url},{servers[1].base_url}", slo="tpot_gain=0.99").assert_outcomes(failed=1)


def test_servers_the_wrong_way_round_are_an_error(
    servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult]
) -> None:
    result = run_gate(f"{servers[1].base_url},{servers[0].base_url}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the baseline speculates too*"])


def test_another_k_than_the_configs_is_an_error(
    servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult]
) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 5}
    result = run_gate(f"{servers[0].base_url},{servers[1].base_url}", speculative_config=config)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*drafts up to 3 tokens, the config states num_speculative_tokens 5*"])


def test_nobody_saw_them_start(servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate(f"{servers[0].base_url},{servers[1].base_url}", slo="max_startup_s=60")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*max_startup_s: the speculating server was not started here*"])


def test_a_server_that_is_not_there_is_an_error(
    servers: tuple[FakeVllm, FakeVllm], run_gate: Callable[..., pytest.RunResult]
) -> None:
    result = run_gate(f"{servers[0].base_url},http://127.0.0.1:1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the specdec server: GET /v1/models: did not answer*"])


@pytest.mark.parametrize(
    ("attach", "more", "said"),
    [
        ("http://a:1", (), "*give two addresses*"),
        ("a:1,b:1", (), "*give two addresses*"),
        ("http://a:1,http://a:1/", (), "*both addresses are the same server*"),
        ("http://me:pw@a:1,http://b:1", (), "*must not hold a password*"),
        (
            "http://a:1,http://b:1",
            ("--specdec-self-test",),
            "*--specdec-self-test is for servers that the run starts itself*",
        ),
        ("http://a:1,http://b:1", ("--specdec-config=other.json",), "*has one config, and 2 were given*"),
    ],
)
def test_what_cannot_be_attached_is_refused_at_once(
    attach: str,
    more: tuple[str, ...],
    said: str,
    run_gate: Callable[..., pytest.RunResult],
    write_config: Callable[..., Any],
) -> None:
    write_config("other.json")
    result = run_gate(attach, *more)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    result.stderr.no_fnmatch_line("*:pw@*")


def test_headers_that_are_none_are_refused(
    run_gate: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDEC_HEADERS", "X-Tenant: ci")
    result = run_gate("http://a:1,http://b:1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*SPECDEC_HEADERS is no JSON object of strings*"])


def test_servers_that_are_kept_can_be_measured_again_and_ended(
    pytester: pytest.Pytester, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> None:
    config = write_config()
    write_gate()
    first = pytester.runpytest(f"--specdec-config={config}", "--specdec-keep")
    first.assert_outcomes(passed=1)
    (attach,) = (line.split()[-1] for line in first.outlines if "measure them again:" in line)
    (end,) = (line.partition("kill ")[2].split() for line in first.outlines if "end them:" in line)
    processes = [psutil.Process(int(pid)) for pid in end]
    try:
        assert len(processes) == 2
        pytester.runpytest(f"--specdec-config={config}", attach).assert_outcomes(passed=1)
        pytester.runpytest(f"--specdec-config={config}", attach).assert_outcomes(passed=1)
    finally:
        for process in processes:
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []
    result = pytester.runpytest(f"--specdec-config={config}", attach)
    result.assert_outcomes(errors=1)
