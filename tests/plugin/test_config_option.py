"""Configs on the command line and in the ini file: errors come at once, before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def usage_error(pytester: pytest.Pytester, *args: str) -> str:
    """Run, expect pytest's exit code 4, and return what was said."""
    result = pytester.runpytest(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert "Traceback" not in text
    return text


def test_a_missing_file(pytester: pytest.Pytester) -> None:
    assert "nowhere.json" in usage_error(pytester, "--specdec-config=nowhere.json")


def test_a_directory(pytester: pytest.Pytester) -> None:
    pytester.mkdir("folder.json")
    assert "folder.json" in usage_error(pytester, "--specdec-config=folder.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_an_unreadable_file(pytester: pytest.Pytester) -> None:
    path = pytester.path / "closed.json"
    path.write_text("{}")
    path.chmod(0)
    assert "closed.json" in usage_error(pytester, "--specdec-config=closed.json")


def test_a_dead_path_in_the_ini_file_names_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nspecdec_config = gone.json\n")
    text = usage_error(pytester)
    assert "gone.json" in text
    assert "specdec_config in tox.ini" in text


def test_all_errors_of_all_files_at_once(pytester: pytest.Pytester) -> None:
    (pytester.path / "one.json").write_text('{"speculative_config": {"method": "ngram"}, "modle": "m"}')
    (pytester.path / "two.json").write_text("null")
    text = usage_error(pytester, "--specdec-config=one.json", "--specdec-config=two.json")
    assert "'model'" in text
    assert "one.json" in text
    assert "two.json" in text


def test_a_models_folder_in_the_ini_file_counts_from_that_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.mkdir("model") / "config.json").write_text("{}")
    pytester.makeini("[pytest]\nspecdec_model = model\n")
    tests = pytester.mkdir("tests")
    (tests / "bare.json").write_text('{"method": "ngram", "num_speculative_tokens": 3}')
    (tests / "test_one.py").write_text("def test_one(): pass")
    monkeypatch.chdir(tests)
    result = pytester.runpytest("--specdec-config=bare.json", "--co", "-c", "../tox.ini")
    result.stdout.fnmatch_lines(["specdec: bare (bare.json): ngram, 3 draft tokens; target */model"])


def test_a_bare_config_needs_a_target_model(pytester: pytest.Pytester) -> None:
    (pytester.path / "bare.json").write_text('{"method": "ngram", "num_speculative_tokens": 3}')
    assert "--specdec-model" in usage_error(pytester, "--specdec-config=bare.json")


@pytest.mark.parametrize(
    "line",
    ["specdec_workloads = onlyaname", "specdec_unsure = maybe", "specdec_rounds = many", "specdec_confidence = 95"],
)
def test_a_bad_ini_value_is_named(pytester: pytest.Pytester, line: str) -> None:
    (pytester.path / "ok.json").write_text(
        '{"model": "m", "speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}'
    )
    pytester.makeini(f"[pytest]\n{line}\n")
    assert line.split(" = ", maxsplit=1)[0] in usage_error(pytester, "--specdec-config=ok.json")


@pytest.mark.parametrize("flag", ["--help", "--markers", "--fixtures"])
def test_questions_about_pytest_read_no_config(pytester: pytest.Pytester, flag: str) -> None:
    result = pytester.runpytest(flag, "--specdec-config=nowhere.json")
    assert result.ret == 0


def test_help_and_markers_describe_the_plugin(pytester: pytest.Pytester) -> None:
    assert "--specdec-config" in pytester.runpytest("--help").stdout.str()
    assert "spec_slo" in pytester.runpytest("--markers").stdout.str()
    assert "spec_comparison" in pytester.runpytest("--fixtures").stdout.str()


def test_without_the_plugin_the_option_is_unknown(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-p", "no:specdec", "--specdec-config=x.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--specdec-config*"])


def test_without_the_plugin_plain_tests_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest_subprocess("-p", "no:specdec").assert_outcomes(passed=1)


def test_the_header_names_config_target_and_folder(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config()
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest("--specdec-config=fake.json").stdout.fnmatch_lines(["specdec:*fake*ngram*fake-model*"])


def test_no_vllm_is_an_error_that_says_how_to_get_it(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_specdec.serving.command._vllm_package", lambda: None)
    write_config(command=None)
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pip install *pytest-specdec*vllm*"])
