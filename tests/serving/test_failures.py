"""From a log and an exit status to the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.serving.failures import find_cause, quote, version_in
from pytest_specdec.serving.log_tables import Circumstances, Event, causes
from pytest_specdec.serving.supervisor import ExitStatus

FAILED = ExitStatus(code=1)
LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*.txt"))
"""Excerpts of what vLLM 0.32.0 on a CPU wrote, and 0.26.0 on a GPU; their first line says under which circumstances, and the cause."""

ENGINE_DIED = """\
(APIServer pid=1) WARNING 07-01 12:00:00 [x.py:1] ImportError: an optional kernel is missing
(EngineCore pid=7) INFO 07-01 12:00:01 [core.py:133] Initializing a V1 LLM engine
(EngineCore pid=7) ERROR 07-01 12:00:02 [core.py:1160] EngineCore failed to start.
(EngineCore pid=7) ERROR 07-01 12:00:02 [core.py:1160] Traceback (most recent call last):
(EngineCore pid=7) ERROR 07-01 12:00:02 [core.py:1160]   File "core.py", line 1, in <module>
(EngineCore pid=7) ERROR 07-01 12:00:02 [core.py:1160] ValueError: No available memory for the cache blocks.
(EngineCore pid=7) Traceback (most recent call last):
(EngineCore pid=7) ValueError: a later one
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}""".splitlines()


def what(lines: list[str], ended: ExitStatus | None = FAILED) -> str | None:
    cause = find_cause(lines, ended)
    return None if cause is None else cause.said or cause.what


def test_the_engines_first_error_wins_over_the_wrapper() -> None:
    assert what(ENGINE_DIED) == "ValueError: No available memory for the cache blocks."


def test_an_error_that_was_only_warned_about_is_no_cause() -> None:
    lines = [
        "(EngineCore pid=7) WARNING 07-01 12:00:00 [x.py:1] ImportError: an optional kernel is missing",
        *ENGINE_DIED,
    ]
    assert what(lines) == "ValueError: No available memory for the cache blocks."


def test_the_engines_error_wins_over_an_earlier_one_of_the_api_server() -> None:
    assert (
        what(["(APIServer pid=1) OSError: [Errno 28] No space left on device", *ENGINE_DIED])
        == "ValueError: No available memory for the cache blocks."
    )


def test_an_error_that_the_table_knows_wins_over_an_earlier_one_that_it_does_not() -> None:
    assert what(["(EngineCore pid=7) KeyError: 'handled'", *ENGINE_DIED]) == (
        "ValueError: No available memory for the cache blocks."
    )


def test_of_errors_that_the_table_does_not_know_the_first_is_quoted() -> None:
    lines = ["(EngineCore pid=7) QueerError: the first", "(EngineCore pid=7) QueerError: the second"]
    cause = find_cause(lines, FAILED)
    assert cause is not None
    assert (cause.what, cause.id, cause.remedy) == ("QueerError: the first", "", "")


def test_a_dotted_error_of_a_worker_is_found() -> None:
    lines = [
        "(Worker_TP0 pid=9) ERROR 07-01 12:00:02 [x.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried ...",
        *ENGINE_DIED,
    ]
    assert what(lines) == "torch.OutOfMemoryError: CUDA out of memory. Tried ..."


def test_of_several_api_servers_and_what_started_them_none_comes_before_the_engine() -> None:
    lines = [
        "(ApiServer_0 pid=5) RuntimeError: passed on",
        "(MainProcess pid=4) RuntimeError: passed on further",
        "(EngineCore pid=7) QueerError: the cause",
    ]
    assert what(lines) == "QueerError: the cause"


def test_an_error_without_a_text_is_told_with_its_line_of_code() -> None:
    lines = [
        "(EngineCore pid=7) Traceback (most recent call last):",
        '(EngineCore pid=7)   File "x.py", line 1, in load',
        "(EngineCore pid=7)     assert depth > 0",
        "(EngineCore pid=7)            ^^^^^^^^^",
        "(EngineCore pid=7) AssertionError",
    ]
    assert what(lines) == "AssertionError at `assert depth > 0`"


def test_a_wrapper_alone_is_no_cause() -> None:
    assert what(ENGINE_DIED[-1:]) is None


def test_a_validation_error_is_quoted_with_what_is_wrong() -> None:
    lines = [
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
        "(APIServer pid=1)   Value error, prompt_lookup_min must be positive [type=value_error, input_value=..., input_type=X]",
        "(APIServer pid=1)     For further information visit ...",
    ]
    assert what(lines) == "SpeculativeConfig: prompt_lookup_min must be positive"


def test_a_validation_error_that_is_too_long_to_be_read_whole_is_quoted_all_the_same() -> None:
    lines = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        f"  Value error, of these: {'Architecture, ' * 400} [type=value_error, input_value=...]",
    ]
    assert (what(lines) or "").startswith("ModelConfig: of these: Architecture, ")


def test_a_validation_error_of_a_field_names_the_field() -> None:
    lines = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
        "num_speculative_tokens",
        "  Input should be greater than 0 [type=greater_than, input_value=0, input_type=int]",
    ]
    cause = find_cause(lines, FAILED)
    assert cause is not None
    assert cause.what == (
        "vLLM refuses the speculative config (num_speculative_tokens): Input should be greater than 0"
    )


def test_the_last_line_of_argparse_is_quoted() -> None:
    lines = ["usage: api_server.py [-h]", "api_server.py: error: unrecognized arguments: --foo", "bye"]
    cause = find_cause(lines, ExitStatus(code=2))
    assert cause is not None
    assert cause.what == "this vLLM does not know: --foo"


def test_an_error_of_another_program_is_none_of_argparse() -> None:
    assert find_cause(["x: error: unrecognized arguments: --foo"], FAILED) is None


def test_a_taken_port_is_told_apart() -> None:
    cause = find_cause(["OSError: [Errno 98] Address already in use"], FAILED)
    assert cause is not None
    assert cause.port_taken


def test_a_missing_vllm_is_told_with_the_remedy() -> None:
    cause = find_cause(
        ["python: Error while finding module specification (ModuleNotFoundError: No module named 'vllm')"], FAILED
    )
    assert cause is not None
    assert "Install vLLM" in cause.remedy


def test_a_kill_points_to_memory() -> None:
    cause = find_cause(["INFO fine"], ExitStatus(signal=9))
    assert cause is not None
    assert "memory" in cause.remedy


@pytest.mark.parametrize("event", ["silence", "timeout"])
def test_a_server_that_does_not_get_ready_is_explained_by_an_error_where_its_log_has_one(event: Event) -> None:
    cause = find_cause(ENGINE_DIED, None, Circumstances(event=event))
    assert cause is not None
    assert cause.id == "kv-memory-none"


@pytest.mark.parametrize(("event", "id_"), [("silence", "silent"), ("timeout", "slow-start")])
def test_a_server_that_does_not_get_ready_without_an_error_has_a_cause_of_its_own(event: Event, id_: str) -> None:
    cause = find_cause(["INFO fine"], None, Circumstances(event=event))
    assert cause is not None
    assert cause.id == id_


@pytest.mark.parametrize(
    ("method", "version", "suggested"),
    [
        ("draft_model", "0.26.0", True),
        ("draft_model", "0.32.0", True),
        ("draft_model", "0.25.1", False),
        ("draft_model", None, False),
        ("eagle3", "0.32.0", False),
    ],
)
def test_another_vocabulary_is_suggested_only_where_vllm_can_bridge_it(
    method: str, version: str | None, *, suggested: bool
) -> None:
    lines = [
        "ValueError: Both should have the same vocabulary size. Target model vocab_size=9. Draft model vocab_size=8."
    ]
    cause = find_cause(lines, FAILED, Circumstances(arm="specdec", method=method, version=version))
    assert cause is not None
    assert ("use_heterogeneous_vocab" in cause.remedy) is suggested


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=1) INFO 11-29 21:19:26 [u.py:1]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0",
        "(EngineCore pid=7) INFO 07-01 12:00:01 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m'",
    ],
)
def test_the_version_is_read_from_the_log(line: str) -> None:
    assert version_in(["x", line]) == "0.32.0"


def test_a_secret_in_an_error_is_masked() -> None:
    cause = find_cause(["QueerError: password=hunter22 and S3CR3T-VALUE"], FAILED, secrets=["S3CR3T-VALUE"])
    assert cause is not None
    assert cause.what == "QueerError: password=*** and ***"


@pytest.mark.parametrize("ended", [FAILED, ExitStatus(code=2), None])
def test_a_log_that_says_nothing_gives_no_cause(ended: ExitStatus | None) -> None:
    assert find_cause(["INFO fine", ""], ended) is None


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_what_real_servers_wrote_is_recognized(path: Path) -> None:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    stated = dict(pair.split("=") for pair in head.removeprefix("# ").split())
    here = Circumstances(arm=stated["arm"], method=stated.get("method"))  # type: ignore[arg-type] # written by us
    cause = find_cause(lines, ExitStatus(code=int(stated["exit"])), here)
    assert cause is not None
    assert cause.id == stated["cause"]


FRAGMENTS = [line for entry in causes() for line in entry.sample]


@given(
    st.lists(st.text() | st.sampled_from(FRAGMENTS) | st.tuples(st.sampled_from(FRAGMENTS), st.text()).map("".join)),
    st.builds(ExitStatus, st.none() | st.integers(0, 255)),
)
@settings(deadline=None)
def test_no_log_makes_it_fail(lines: list[str], ended: ExitStatus) -> None:
    find_cause(lines, ended)


def test_an_empty_log_is_said_to_be_empty() -> None:
    assert "empty" in quote([])


def test_a_secret_in_the_end_of_a_log_is_masked() -> None:
    assert quote(["Authorization: Bearer abcdef", "key S3CR3T-VALUE"], secrets=["S3CR3T-VALUE"]) == (
        "\n  The end of its log:\n    | Authorization: ***\n    | key ***"
    )


def test_the_end_of_a_log_is_quoted_without_the_noise_of_pythons_exit() -> None:
    noise = [
        "nanobind: leaked 1 functions!",
        ' - leaked function "x"',
        " - ... skipped remainder",
        "    ^^^^^",
        "  warnings.warn('x",
    ]
    lines = [f"line {number}" for number in range(30)]
    assert quote([*lines, *noise], count=2) == "\n  The end of its log:\n    | line 28\n    | line 29"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (ExitStatus(code=2), "exited with code 2"),
        (ExitStatus(signal=9), "was killed by signal 9 (SIGKILL)"),
        (ExitStatus(signal=60), "was killed by signal 60"),
        (ExitStatus(), "was killed together with its supervisor"),
    ],
)
def test_an_exit_reads_as_a_sentence(status: ExitStatus, text: str) -> None:
    assert str(status) == text
