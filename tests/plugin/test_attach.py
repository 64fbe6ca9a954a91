"""Gates on servers that something else started: measured as any other, and left running."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

from pytest_specdec.load import idle
from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.serving.prometheus import running_requests
from pytest_specdec.serving.scrape_source import get_text
from pytest_specdec.testing import FakeVllm
from tests.exact_times import STAMPED
from tests.plugin.conftest import FAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEV_MODE = {"VLLM_SERVER_DEV_MODE": "1"}
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


@pytest.fixture(scope="module")
def shared_servers() -> Iterator[tuple[FakeVllm, FakeVllm]]:
    """The same, where an answer can go on for as long as a test runs, and figures per request are told."""
    knobs: dict[str, Any] = FAST | STAMPED | {"version": "0.30.0"}
    long, figures = ("--max-model-len", "100000"), ("--per-request-spec-decode-metrics", "detailed")
    with (
        FakeVllm(model="fake-model", flags=long, env=DEV_MODE, **knobs) as baseline,
        FakeVllm(
            model="fake-model", flags=(*long, *figures), env=DEV_MODE, speculative_config=SPECULATION, **knobs
        ) as specdec,
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


@contextlib.contextmanager
def another_client(*servers: FakeVllm) -> Iterator[None]:
    """Answers that go on and on, to somebody else."""
    with contextlib.ExitStack() as open_until_then:
        for server in servers:
            connection = http.client.HTTPConnection(urlsplit(server.base_url).netloc, timeout=60)
            open_until_then.callback(connection.close)
            asked = {"model": "fake-model", "prompt": "On and on", "stream": True, "ignore_eos": True}
            connection.request(
                "POST",
                "/v1/completions",
                json.dumps(asked | {"max_tokens": 90_000}),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            open_until_then.callback(answer.close)
            assert answer.readline().startswith((b"data: {", b": due"))  # it runs
        yield
        for server in servers:  # all the time
            assert running_requests(get_text(f"{server.base_url}/metrics", 60)) >= 1


def test_another_clients_requests_are_an_error_that_names_the_option(
    shared_servers: tuple[FakeVllm, FakeVllm],
    run_gate: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idle, "IDLE_TIMEOUT_S", 0.0)
    with another_client(*shared_servers):
        result = run_gate(f"{shared_servers[0].base_url},{shared_servers[1].base_url}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*foreign traffic: * running on the server although we sent none*", "*--specdec-allow=foreign-traffic*"]
    )


@pytest.mark.parametrize("said", ["--specdec-allow=foreign-traffic", "in the config"])
def test_another_clients_requests_may_be_allowed(
    said: str,
    shared_servers: tuple[FakeVllm, FakeVllm],
    run_gate: Callable[..., pytest.RunResult],
    pytester: pytest.Pytester,
) -> None:
    measure = {"rounds": 3, "max_rounds": 3} | ({"allow": ["foreign-traffic"]} if said == "in the config" else {})
    with another_client(*shared_servers):
        result = run_gate(
            f"{shared_servers[0].base_url},{shared_servers[1].base_url}",
            *([said] if said.startswith("--") else []),
            "--junitxml=junit.xml",
            slo="tpot_gain=0.1, min_acceptance_length=1.2",
            measure=measure,
        )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fake/tiny: note: foreign traffic was allowed*"])
    assert 'name="specdec.traffic" value="foreign"' in (pytester.path / "junit.xml").read_text()
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert comparison.foreign_traffic
    assert sum(note.startswith("foreign traffic was allowed") for note in comparison.notes) == 1
    for run in comparison.runs:
        received = sum(sample.completion_tokens for sample in run.successes)
        assert run.counters.generation_tokens == received
        assert run.server_counters is not None
        assert (run.server_counters.generation_tokens or 0) > received
        assert not run.prefix_cache_reset
        if run.arm == "specdec":  # exactly: by the server's figures per request
            told = [sample.spec.drafts for sample in run.successes if sample.spec is not None]
            assert (run.counters.drafts, len(told)) == (sum(told), len(run.successes))
            assert (run.server_counters.drafts or 0) > sum(told)


def test_servers_that_the_run_starts_have_no_other_users(
    pytester: pytest.Pytester, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> None:
    write_gate()
    write_config()
    by_option = pytester.runpytest("--specdec-config=fake.json", "--specdec-allow=foreign-traffic")
    write_config(measure={"allow": ["foreign-traffic"]})
    by_config = pytester.runpytest("--specdec-config=fake.json")
    for result, where in ((by_option, "--specdec-allow"), (by_config, "fake.json: measure: allow")):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*{where}: foreign-traffic is for servers that run already (--specdec-attach)*"])


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
