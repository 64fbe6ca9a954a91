"""``--specdec-prometheus``: gates on live traffic, from a real Prometheus that scrapes stand-in servers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import SpecDecError
from pytest_specdec.serving.prometheus_api import PrometheusApi
from pytest_specdec.testing import FakeVllm
from tests.live_prometheus import needs_prometheus, scraping

if TYPE_CHECKING:
    from collections.abc import Iterator

SELECTORS = ('--specdec-canary-baseline={version="stable"}', "--specdec-canary-specdec={version='canary'}")
WINDOW_S = 12
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

GATE = """
    import pytest

    @pytest.mark.spec_slo({slo})
    def test_canary(spec_canary):
        assert spec_canary.window.specdec.total("finished_requests") > 0
"""


def ask(server: FakeVllm) -> None:
    body = json.dumps({"model": server.served_name, "prompt": "Hello", "max_tokens": 16}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.base_url}/v1/completions", body, headers)  # noqa: S310 - http on loopback
    with _OPENER.open(request, timeout=30) as answer:
        answer.read()


@contextlib.contextmanager
def traffic(*servers: FakeVllm) -> Iterator[None]:
    """A request after the other to every server, until the block ends."""
    over = threading.Event()

    def keep_asking(server: FakeVllm) -> None:
        while not over.is_set():
            ask(server)

    with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
        asking = [pool.submit(keep_asking, server) for server in servers]
        try:
            yield
        finally:
            over.set()
        for one in asking:
            one.result()


def wait_until_told(url: str) -> None:
    """Until Prometheus can tell a gain: traffic of both arms in enough slices of the window."""
    api, deadline = PrometheusApi(url), time.monotonic() + 120
    while True:
        with contextlib.suppress(SpecDecError):
            window = api.window('version="stable"', 'version="canary"', WINDOW_S)
            ended = [window.arm(arm).counts["finished_requests"] > 0 for arm in ("baseline", "specdec")]
            if (ended[0] & ended[1]).sum() >= 8:
                return
        assert time.monotonic() < deadline, "Prometheus saw no traffic"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    knobs: dict[str, Any] = {"tpot_ms": 20, "ttft_ms": 10, "answer_tokens": (16, 16), "jitter": 0.05}
    speculation = {"method": "eagle3", "model": "head", "num_speculative_tokens": 3}
    with (
        FakeVllm(**knobs) as stable,
        FakeVllm(speculative_config=speculation, acceptance_length=2.4, step_ratio=1.2, **knobs) as canary,
        scraping(tmp_path_factory.mktemp("p"), {"stable": stable.base_url, "canary": canary.base_url}) as url,
        traffic(stable, stable, canary, canary),
    ):
        wait_until_told(url)
        yield url


def run(pytester: pytest.Pytester, slo: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(GATE.format(slo=slo))
    return pytester.runpytest(f"--specdec-canary-window={WINDOW_S}s", *arguments)


@needs_prometheus
def test_objectives_that_are_met_pass_and_are_shown(pytester: pytest.Pytester, prometheus: str) -> None:
    slo = "tpot_gain=-4, min_acceptance_length=1.5, min_acceptance_rate=0.2, tpot_p95_ms=5000, ttft_p95_ms=20000"
    result = run(pytester, slo, f"--specdec-prometheus={prometheus}", *SELECTORS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*live traffic: *test_canary*",
            "  ok      tpot_gain *>= -400.0 %*",
            "  ok      min_acceptance_length *>= * 1.50 *",
            "  ok      tpot_p95_ms *<= * 5000 *",
            '*baseline * requests * TPOT * ms on average *{version="stable"}',
            "*specdec * acceptance length *{version='canary'}",
            "*the last 12 seconds*",
            "*note: live traffic: the arms answered different requests*",
        ]
    )
    (gate,) = json.loads((pytester.path / ".specdec" / "results.json").read_text())["gates"]
    assert (gate["config_id"], gate["outcome"], len(gate["verdicts"])) == ("canary", "passed", 5)


@needs_prometheus
def test_objective_that_is_missed_fails_after_the_body(pytester: pytest.Pytester, prometheus: str) -> None:
    result = run(pytester, "min_acceptance_length=3.5", f"--specdec-prometheus={prometheus}", *SELECTORS)
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["1 of 1 objective missed: min_acceptance_length * < 3.5", "*FAIL    min_acceptance_length*"]
    )


@needs_prometheus
@pytest.mark.parametrize(("unsure", "outcome"), [("fail", "failed"), ("pass", "passed")])
def test_unsure_objective_is_as_asked(pytester: pytest.Pytester, prometheus: str, unsure: str, outcome: str) -> None:
    # That few requests without a failure prove anything, but not so much.
    given = (f"--specdec-prometheus={prometheus}", f"--specdec-unsure={unsure}")
    result = run(pytester, "max_failure_share=0.0001", *given, *SELECTORS)
    result.assert_outcomes(**{outcome: 1})


@needs_prometheus
@pytest.mark.parametrize(
    ("selectors", "said"),
    [
        (
            ('--specdec-canary-baseline={version="canary"}', '--specdec-canary-specdec={version="stable"}'),
            "the baseline speculates too",
        ),
        (
            ('--specdec-canary-baseline={version="gone"}', '--specdec-canary-specdec={version="canary"}'),
            "no vLLM server has the labels",
        ),
    ],
)
def test_wrong_labels_are_an_error(
    pytester: pytest.Pytester, prometheus: str, selectors: tuple[str, str], said: str
) -> None:
    result = run(pytester, "min_acceptance_length=1.5", f"--specdec-prometheus={prometheus}", *selectors)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{said}*"])


def test_without_a_prometheus_the_test_is_skipped(pytester: pytest.Pytester) -> None:
    result = run(pytester, "min_acceptance_length=1.5", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no live traffic to judge: give --specdec-prometheus=URL*"])


def test_prometheus_that_does_not_answer_is_an_error(pytester: pytest.Pytester) -> None:
    result = run(pytester, "min_acceptance_length=1.5", "--specdec-prometheus=http://127.0.0.1:1", *SELECTORS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Prometheus did not answer*"])


def test_run_that_judges_nothing_is_not_green(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        GATE.format(slo="min_acceptance_length=1.5").replace("def test", "@pytest.mark.skip\n    def test")
    )
    result = pytester.runpytest("--specdec-prometheus=http://127.0.0.1:1", *SELECTORS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: a Prometheus was given and gates were selected, but none was judged"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--specdec-prometheus needs --specdec-canary-baseline"),
        (SELECTORS[:1], "--specdec-prometheus needs --specdec-canary-specdec"),
        ((SELECTORS[0], "--specdec-canary-specdec=canary"), "--specdec-canary-specdec: 'canary' is no label selector"),
        ((*SELECTORS, "--specdec-canary-window=30"), "--specdec-canary-window: '30' is no length of time"),
    ],
)
def test_wrong_options_stop_the_run(pytester: pytest.Pytester, arguments: tuple[str, ...], said: str) -> None:
    pytester.makepyfile(GATE.format(slo="min_acceptance_length=1.5"))
    result = pytester.runpytest("--specdec-prometheus=http://127.0.0.1:1", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}*"])


@needs_prometheus
def test_acceptance_procedure_ends_with_the_canary(pytester: pytest.Pytester, prometheus: str) -> None:
    given = [f"--specdec-acceptance={one}" for one in ("tpot_gain=-4", "failures=0.5", "tpot_p95_ms=5000")]
    window = f"--specdec-canary-window={WINDOW_S}s"
    suite = ("--pyargs", "pytest_specdec.acceptance", "-k", "canary")
    result = pytester.runpytest_subprocess(*suite, f"--specdec-prometheus={prometheus}", window, *SELECTORS, *given)
    result.assert_outcomes(passed=1, deselected=7)
    result.stdout.fnmatch_lines(
        ["test_5_canary*", "  ok: min_acceptance_length *; ok: tpot_gain *; ok: max_failure_share *; ok: tpot_p95_ms *"]
    )
