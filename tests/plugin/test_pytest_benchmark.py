"""Gates as benchmarks of pytest-benchmark: in its JSON, its storage and its comparisons; and what happens where it is off."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.session import SpecSession
from tests.plugin.pretended import pretend_measured

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("pytest_benchmark")

EXTEND = SpecSession.extend
TPOT = "test_gate.py::test_gate[fake]: TPOT of specdec"


@pytest.fixture(autouse=True)
def gate(write_config: Callable[..., Path], write_gate: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch, noise=0.02, round_drift=0.01)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # with it pytest-benchmark is off, inside as well
    write_config()
    write_gate("tpot_gain=0.1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest("--specdec-config=fake.json", *arguments)


def by_fullname(path: Path) -> dict[str, Any]:
    return {one["fullname"]: one for one in json.loads(path.read_text())["benchmarks"]}


def test_rounds_of_both_arms_are_in_the_json(pytester: pytest.Pytester) -> None:
    run(pytester, "--benchmark-json=out.json").assert_outcomes(passed=1)
    found = by_fullname(pytester.path / "out.json")
    assert [one["group"] for one in found.values()] == ["baseline", "baseline", "specdec", "specdec"]
    tpot = found[TPOT]
    assert tpot["stats"]["rounds"] == len(tpot["stats"]["data"]) == 3
    result = json.loads((pytester.path / ".specdec" / "results.json").read_text())
    (verdict,) = result["gates"][0]["verdicts"]
    assert tpot["extra_info"]["verdict"] == verdict["outcome"] == "ok"
    assert tpot["extra_info"]["tpot_gain"] == pytest.approx(verdict["estimate"]["value"])
    assert tpot["extra_info"]["acceptance_length"] > 1.5
    other = found[TPOT.replace("specdec", "baseline")]
    # The gain is the geometric mean over rounds and requests; requests are equally many in each round.
    ratios = [now / before for now, before in zip(tpot["stats"]["data"], other["stats"]["data"], strict=True)]
    gain = 1 - (ratios[0] * ratios[1] * ratios[2]) ** (1 / 3)
    assert gain == pytest.approx(verdict["estimate"]["value"])


def test_saved_runs_are_compared_by_both_of_its_commands(pytester: pytest.Pytester) -> None:
    run(pytester, "--benchmark-autosave").assert_outcomes(passed=1)
    result = run(pytester, "--benchmark-compare", "--benchmark-save=second", "--benchmark-compare-fail=mean:900%")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*benchmark 'baseline': 4 tests*", "*benchmark 'specdec': 4 tests*"])
    result.stdout.fnmatch_lines(["*test_gate?fake?: TPOT of specdec (NOW)*"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", "--group-by=fullname"],
        capture_output=True,
        text=True,
        check=True,
        cwd=pytester.path,
    )
    assert f"benchmark '{TPOT}': 2 tests" in done.stdout


def test_a_slower_run_fails_its_comparison(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    run(pytester, "--benchmark-autosave").assert_outcomes(passed=1)
    pretend_measured(monkeypatch, tpot_base_ms=30, tpot_spec_ms=21)
    result = run(pytester, "--benchmark-compare", "--benchmark-compare-fail=mean:50%")
    assert result.ret != pytest.ExitCode.OK
    result.stderr.fnmatch_lines(["*Performance has regressed*"])


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pygal", "lazy_importer")), reason="pygal is not installed"
)
def test_histogram_has_them(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process of its own: what pygal imports replaces the way in which installed packages, and with them pytest's plugins, are found.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest(
        """
        import pytest
        from tests.plugin.pretended import pretend_measured

        pretend_measured(pytest.MonkeyPatch(), noise=0.02, round_drift=0.01)
        """
    )
    result = pytester.runpytest_subprocess("--specdec-config=fake.json", "--benchmark-histogram=chart")
    result.assert_outcomes(passed=1)
    assert "TPOT of specdec" in (pytester.path / "chart-specdec.svg").read_text()
    assert "pygal" not in sys.modules


@pytest.mark.parametrize(
    "off", [("-p", "no:benchmark"), ("--benchmark-disable", "--benchmark-json=out.json"), ()], ids=str
)
def test_without_it_gates_are_judged_all_the_same(pytester: pytest.Pytester, off: tuple[str, ...]) -> None:
    result = run(pytester, *off)
    result.assert_outcomes(passed=1)
    assert "benchmark 'specdec'" not in result.stdout.str()
    assert not (pytester.path / "out.json").exists()


def test_own_benchmarks_may_use_the_servers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpecSession, "extend", EXTEND)  # with servers
    pytester.makepyfile(
        test_own="""
        import urllib.request

        def test_version(benchmark, spec_servers):
            url = f"{spec_servers.specdec_url}/version"
            with_answer = benchmark.pedantic(lambda: urllib.request.urlopen(url).read(), rounds=3)
            assert with_answer
        """
    )
    run(pytester, "--benchmark-json=out.json").assert_outcomes(passed=2)
    found = by_fullname(pytester.path / "out.json")
    assert found["test_own.py::test_version[fake]"]["stats"]["rounds"] == 3
    assert TPOT in found


def test_each_load_of_a_sweep_is_a_benchmark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_gate="""
        import pytest

        @pytest.mark.spec_load(workload="tiny", concurrency=[1, 2], num_requests=8, max_tokens=24)
        @pytest.mark.spec_slo(tpot_gain=0.1)
        def test_gate(spec_comparison):
            pass
        """
    )
    run(pytester, "--benchmark-json=out.json").assert_outcomes(passed=1)
    found = by_fullname(pytester.path / "out.json")
    assert f"{TPOT} @ concurrency 1" in found
    assert f"{TPOT} @ concurrency 2" in found


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("pytest_benchmark.stats.Metadata.update", "AttributeError: *"),
        ("pytest_benchmark.session.BenchmarkSession.prepare_benchmarks", "of 4 benchmarks it left out 4"),
    ],
)
@pytest.mark.parametrize("output", ["--benchmark-json=out.json", "--benchmark-autosave", "--benchmark-compare"])
def test_a_release_that_does_not_take_them_fails_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gone: str, why: str, output: str
) -> None:
    if gone.endswith("prepare_benchmarks"):
        monkeypatch.setattr(gone, lambda _: iter(()))
    else:
        monkeypatch.delattr(gone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pytest-benchmark's own, that it has nothing to save or to compare with
        result = run(pytester, output)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"ERROR: pytest-benchmark * does not take the gates' rounds ({why}): *"])


def test_without_rounds_no_release_is_blamed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pytest_benchmark.stats.Metadata.update")
    pytester.makepyfile(test_gate="def test_plain(): pass")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        result = run(pytester, "--benchmark-json=out.json")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*does not take*")
