"""``--specdec-save`` and ``--specdec-compare``: what is kept, what it is held against, and what is refused."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.session import SpecSession
from tests.plugin.pretended import pretend_measured

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GATE = "max_regression={'acceptance_length': 0.05}"
K5 = {"method": "ngram", "num_speculative_tokens": 5}


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch)
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def saved(pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]) -> Path:
    """A first run, saved as ``first``; then the gate asks for no regression."""
    write_config()
    write_gate("tpot_gain=-0.9")
    pytester.runpytest("--specdec-config=fake.json", "--specdec-save=first").assert_outcomes(passed=1)
    write_gate(GATE)
    (path,) = history(pytester)
    return path


def history(pytester: pytest.Pytester) -> list[Path]:
    return sorted((pytester.path / ".specdec" / "history").glob("*.json"))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest("--specdec-config=fake.json", *arguments)


def errors_of(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


@pytest.mark.parametrize("what", ["last", "first"])
def test_a_run_like_the_saved_one_passes_and_shows_both(pytester: pytest.Pytester, saved: Path, what: str) -> None:
    assert saved.name.endswith("_first.json")
    result = run(pytester, f"--specdec-compare={what}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "fake, tiny, concurrency 4: against first of *",
            "*then*now*worse by (95 % interval)*",
            "*acceptance length*",
        ]
    )
    assert history(pytester) == [saved]


def test_a_worse_draft_fails_and_is_no_reference(
    pytester: pytest.Pytester, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_measured(monkeypatch, acceptance=(0.3, 0.1, 0.0))
    result = run(pytester, f"--specdec-compare={saved}", "--specdec-save=bad")
    result.assert_outcomes(failed=1)
    assert "1 of 1 objective missed: max_regression[acceptance_length]" in errors_of(result)
    assert len(history(pytester)) == 2
    pretend_measured(monkeypatch)
    result = run(pytester, "--specdec-compare=last")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*against first of *"])


def test_another_k_is_an_error_before_a_server_starts(
    pytester: pytest.Pytester, saved: Path, write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved.exists()
    write_config(speculative_config=K5)
    measured: list[object] = []
    monkeypatch.setattr(SpecSession, "extend", lambda *_: measured.append(_))
    result = run(pytester, "--specdec-compare=last")
    result.assert_outcomes(errors=1)
    assert "saved against now: num_speculative_tokens 3 against 5 (first of " in errors_of(result)
    assert measured == []


def test_another_device_is_an_error_when_it_is_known(pytester: pytest.Pytester, saved: Path) -> None:
    text = saved.read_text()
    assert "Pretended CPU" in text
    saved.write_text(text.replace("Pretended CPU", "Other CPU"))
    result = run(pytester, "--specdec-compare=last")
    result.assert_outcomes(errors=1)
    assert "saved against now: device Other CPU against Pretended CPU" in errors_of(result)


def test_the_first_run_is_measured_and_saved_and_says_that_there_was_nothing_before(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    write_config()
    write_gate(GATE)
    result = run(pytester, "--specdec-compare=last", "--specdec-save")
    result.assert_outcomes(errors=1)
    assert "This run is saved: the next one has something to compare with." in errors_of(result)
    result.stdout.fnmatch_lines(["saved: .specdec/history/*.json"])
    run(pytester, "--specdec-compare=last").assert_outcomes(passed=1)


def test_objective_without_a_result_to_compare_with_is_an_error(pytester: pytest.Pytester, saved: Path) -> None:
    assert saved.exists()
    result = run(pytester)
    result.assert_outcomes(errors=1)
    assert "max_regression: no saved result was given to compare with" in errors_of(result)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--specdec-compare=last", "*no result is saved in *history*"),
        ("--specdec-compare=gone.json", "*gone.json: cannot be read*"),
        ("--specdec-compare=fake.json", "*fake.json: is not a result of pytest-specdec*"),
        ("--specdec-save=a/b", "*'a/b' is no name for a run*"),
        ("--specdec-save=test_gate.py", "*'test_gate.py' is no name for a run*put the option behind the tests' paths*"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_starts(
    pytester: pytest.Pytester,
    write_config: Callable[..., Path],
    write_gate: Callable[..., Path],
    option: str,
    said: str,
) -> None:
    write_config()
    write_gate(GATE)
    result = run(pytester, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert not (pytester.path / ".specdec").exists()


def test_unknown_branch_is_refused(pytester: pytest.Pytester, saved: Path) -> None:
    assert saved.exists()
    result = run(pytester, "--specdec-compare=mian")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*mian: no run saved in *has that name, commit or branch, and it is no file*"])


def test_commit_and_branch_are_kept_and_find_the_run(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    write_config()
    write_gate("tpot_gain=-0.9")

    def git(*words: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "trunk")
    git("add", "test_gate.py")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    run(pytester, "--specdec-save", "--specdec-history=kept").assert_outcomes(passed=1)
    (path,) = (pytester.path / "kept").glob("*.json")
    assert commit[:12] in path.name
    known: dict[str, Any] = json.loads(path.read_text())["environment"]
    assert (known["commit"], known["branch"], known.get("dirty")) == (commit, "trunk", None)
    write_gate(GATE)
    for what in ("trunk", commit[:8]):
        result = run(pytester, f"--specdec-compare={what}", "--specdec-history=kept")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"*against {path.name} of * ({commit[:8]}, trunk)"])


def test_result_that_cannot_be_saved_fails_the_run(
    pytester: pytest.Pytester, write_config: Callable[..., Path], write_gate: Callable[..., Path]
) -> None:
    write_config()
    write_gate("tpot_gain=-0.9")
    result = run(pytester, "--specdec-save", "--specdec-history=fake.json")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: the result could not be saved: *"])
