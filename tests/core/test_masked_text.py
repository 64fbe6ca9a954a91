"""Secrets in running text: planted in every form in which they turn up, and looked for afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import Finding, LaunchError
from pytest_specdec.core.masked_text import masked_data, masked_text, secret_values

SECRET = "S3CR3T-VALUE"  # noqa: S105 - a stand-in that must never come out again
TOKEN = "hf_" + "a1B2c3D4e5F6g7H8i9J0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Authorization: Bearer {SECRET}", "Authorization: ***"),
        (f"headers={{'Authorization': 'Bearer {SECRET}'}}", "headers={'Authorization': '***'}"),
        (f"x-api-key: {SECRET} sent", "x-api-key: *** sent"),
        (f"used bearer {SECRET}", "used bearer ***"),
        (f"HF_TOKEN={SECRET} vllm serve", "HF_TOKEN=*** vllm serve"),
        (f"vllm serve --api-key {SECRET} --port 1", "vllm serve --api-key *** --port 1"),
        (f"vllm serve --api-key={SECRET}", "vllm serve --api-key=***"),
        (f"non-default args: {{'api_key': ['{SECRET}', 'x'], 'port': 1}}", "non-default args: {'api_key': ***, 'port': 1}"),
        (f'{{"password": "{SECRET}"}}', '{"password": "***"}'),
        (f"https://me:{SECRET}@host/m", "https://***@host/m"),
        (f"GET /m?token={SECRET}&x=1", "GET /m?token=***&x=1"),
        (f"cannot read {TOKEN}.", "cannot read ***."),
        ("key sk-abcdefghijklmnop1234 is wrong", "key *** is wrong"),
        (f"first\nHF_TOKEN={SECRET}\nlast", "first\nHF_TOKEN=***\nlast"),
    ],
)  # fmt: skip
def test_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: num_speculative_tokens=3 must be divisible by n_predict=2",
        "eos_token_id=2, pad_token='<pad>', max_num_batched_tokens=8192",
        "KeyError: 'layers.0.mlp.weight'",
        "missing key: lm_head.weight",
        "--tokenizer models/x --max-num-batched-tokens 5 --ssl-keyfile f.pem",
        "api_key=None token=True",
        "http://127.0.0.1:8000/v1/models",
        "the bearer token is missing",
        "9.31 tokens per step, 0.24 accepted",
    ],
)
def test_innocent_text_stays(text: str) -> None:
    assert masked_text(text) == text


def test_a_known_value_is_masked_wherever_it_turns_up() -> None:
    assert masked_text(f"model {SECRET}x not found", [SECRET]) == "model ***x not found"


def test_values_are_known_from_flags_and_variables() -> None:
    argv = ["vllm", "--api-key", "from-flag", "--hf-token=from-assignment", "bash -c 'X_KEY=from-shell y'", "--port", "8000"]  # fmt: skip
    env = {"HF_TOKEN": "from-variable", "HOME": "/root", "SHORT_KEY": "abc", "COUNT_TOKEN": "123456789"}
    assert set(secret_values(argv, env)) == {"from-flag", "from-assignment", "from-shell", "from-variable"}


def test_in_data_only_strings_are_read() -> None:
    data = {"error": f"HF_TOKEN={SECRET}", "times": [0.5, 1.5], "n": None, "inner": [{"a": [SECRET]}, 1]}
    assert masked_data(data, [SECRET]) == {
        "error": "HF_TOKEN=***", "times": [0.5, 1.5], "n": None, "inner": [{"a": ["***"]}, 1]
    }  # fmt: skip


def test_no_error_shows_a_secret_whoever_raises_it() -> None:
    error = LaunchError(f"HF_TOKEN={SECRET}", where=f"https://me:{SECRET}@h", remedy=f"--api-key {SECRET}")
    assert SECRET not in f"{error} {error.args} {error.what} {error.where} {error.remedy}"


def test_no_finding_shows_a_secret() -> None:
    assert SECRET not in str(Finding("error", "x.json", f"bad value: api_key={SECRET}", "y"))


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_masked_and_twice_is_as_good_as_once(text: str) -> None:
    once = masked_text(text)
    assert masked_text(once) == once
