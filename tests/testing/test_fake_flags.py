"""The command line of the stand-in server."""

from __future__ import annotations

import pytest

from pytest_specdec.testing.flags import Launch, parse_flags, version_tuple


def parse(*argv: str, version: str = "0.26.0") -> Launch:
    return parse_flags(argv, version=version)


def test_flags_of_vllm_that_mean_nothing_here_are_accepted() -> None:
    launch = parse(
        *[
            "--tensor-parallel-size",
            "2",
            "--model",
            "m",
            "--enforce-eager",
            "--gpu-memory-utilization=0.8",
            "--port",
            "9",
        ]
    )
    assert (launch.model, launch.port) == ("m", 9)


@pytest.mark.parametrize("argv", [["--model", "m"], ["serve", "m"], ["m"], ["m", "--max-model-len", "64"]])
def test_the_model_is_a_flag_or_the_first_word(argv: list[str]) -> None:
    assert parse(*argv).model == "m"


def test_a_value_of_an_unknown_flag_is_not_taken_for_the_model() -> None:
    with pytest.raises(SystemExit):
        parse("--tensor-parallel-size", "2")


def test_the_served_name_is_the_model_unless_given() -> None:
    assert parse("m").served_name == "m"
    assert parse("m", "--served-model-name", "a", "b").served_name == "a"


@pytest.mark.parametrize("flag", ["--speculative-config", "--speculative_config", "-sc"])
def test_the_speculative_config_selects_the_arm(flag: str) -> None:
    launch = parse("m", flag, '{"method": "ngram", "num_speculative_tokens": "4"}')
    assert (launch.arm, launch.configured_k) == ("specdec", 4)


def test_shorthand_flags_speculate_too() -> None:
    assert parse("m", "--spec-method", "ngram", "--spec-tokens", "2").configured_k == 2


def test_null_starts_without_speculation() -> None:
    assert parse("m", "--speculative-config", "null").arm == "baseline"


@pytest.mark.parametrize("text", ["{", "[]", '"ngram"'])
def test_a_speculative_config_that_is_no_object_ends_with_status_2(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("m", "--speculative-config", text)
    assert ended.value.code == 2
    assert "cannot be converted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "version"),
    [
        ("--speculative-model", "0.26.0"),
        ("--num-speculative-tokens", "0.26.0"),
        ("--per-request-spec-decode-metrics", "0.28.1"),
        ("--spec-method", "0.21.0"),
    ],
)
def test_a_flag_that_the_version_does_not_have_ends_with_status_2(
    flag: str, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--model", "m", flag, "x", version=version)
    assert ended.value.code == 2
    assert f"error: unrecognized arguments: {flag} x" in capsys.readouterr().err


def test_per_request_metrics_are_known_from_0_29_on() -> None:
    launch = parse("m", "--per-request-spec-decode-metrics", "detailed", version="0.29.0")
    assert launch.per_request_speculation == "detailed"


@pytest.mark.parametrize(("text", "tokens"), [("64", 64), ("2k", 2000), ("2K", 2048), ("auto", 8192)])
def test_max_model_len_takes_the_units_of_vllm(text: str, tokens: int) -> None:
    assert parse("m", "--max-model-len", text).max_model_len == tokens


@pytest.mark.parametrize(("text", "expected"), [("0.26.0", (0, 26, 0)), ("0.32.0rc1", (0, 32)), ("dev", ())])
def test_versions_compare_by_number(text: str, expected: tuple[int, ...]) -> None:
    assert version_tuple(text) == expected
