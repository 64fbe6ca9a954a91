from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.masking import is_secret, masked_argv, masked_env

SECRET = "S3CR3T"  # noqa: S105 - a stand-in that must never come out again


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hf_token",
        "--api-key",
        "VLLM_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
        "password",
        "MY_PASSWORDS",
        "Authorization",
        "client_secret",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "--tokenizer",
        "num_speculative_tokens",
        "--max-num-batched-tokens",
        "TOKENIZERS_PARALLELISM",
        "--ssl-keyfile",
        "HOME",
        "",
    ],
)
def test_names_that_only_look_alike(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", SECRET, "--port", "1"], "--api-key *** --port 1"),
        (["--api-key", SECRET, SECRET, "--port", "1"], "--api-key *** *** --port 1"),
        ([f"--api-key={SECRET}"], "--api-key=***"),
        (["docker", "run", "-e", f"HF_TOKEN={SECRET}", "img"], "docker run -e HF_TOKEN=*** img"),
        (["docker", "run", f"-eHF_TOKEN={SECRET}"], "docker run -eHF_TOKEN=***"),
        ([f"--env=HF_TOKEN={SECRET}"], "--env=HF_TOKEN=***"),
        (
            ["bash", "-c", f" exec  vllm serve --api-key {SECRET} --port 1 "],
            "bash -c  exec  vllm serve --api-key *** --port 1 ",
        ),
        (["bash", "-c", f"cd x; HF_TOKEN='my {SECRET}' vllm serve"], "bash -c cd x; HF_TOKEN=*** vllm serve"),
        (["bash", "-c", f"HF_TOKEN={SECRET} vllm serve"], "bash -c HF_TOKEN=***"),
        (["--kv", f'{{"a": 1, "auth": {{"password": "{SECRET}"}}}}'], '--kv {"a":1,"auth":{"password":"***"}}'),
        ([f'--kv={{"token": ["{SECRET}"]}}'], '--kv={"token":["***"]}'),
        (["--model", f"https://me:{SECRET}@host/m"], "--model https://***@host/m"),
        (["--kv", f'{{"url": "redis://:{SECRET}@host"}}'], '--kv {"url": "redis://***@host"}'),
        (["--return-tokens-as-token-ids", "--port", "1"], "--return-tokens-as-token-ids --port 1"),
        (
            ["--speculative-config", '{"num_speculative_tokens": 3}'],
            '--speculative-config {"num_speculative_tokens": 3}',
        ),
        (["--x", "{not json"], "--x {not json"),
    ],
)
def test_a_command_is_shown_without_its_secrets(argv: list[str], shown: str) -> None:
    assert " ".join(masked_argv(argv)) == shown


def test_variables_are_shown_without_their_secrets() -> None:
    env = {
        "HF_TOKEN": SECRET,
        "EMPTY_KEY": "",
        "http_proxy": f"http://me:{SECRET}@proxy:1",
        "VLLM_LOGGING_LEVEL": "DEBUG",
    }
    assert masked_env(env) == {
        "HF_TOKEN": "***",
        "EMPTY_KEY": "",
        "http_proxy": "http://***@proxy:1",
        "VLLM_LOGGING_LEVEL": "DEBUG",
    }


@settings(deadline=None)
@given(st.lists(st.text()))
def test_any_words_can_be_masked_and_none_is_lost(words: list[str]) -> None:
    assert len(masked_argv(words)) == len(words)
