"""What a user reads when a server does not come up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

BROKEN = {"exit_at_start": {"code": 1, "message": "ValueError: No available memory for the cache blocks."}}
TWO_LOADS = """
    import pytest

    @pytest.mark.spec_slo(tpot_gain=0.1)
    @pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=24)
    def test_first(spec_comparison):
        pass

    @pytest.mark.spec_slo(tpot_gain=0.1)
    @pytest.mark.spec_load(workload="tiny", concurrency=2, num_requests=8, max_tokens=24)
    def test_second(spec_comparison):
        pass
"""


def test_speculation_alone_did_not_come_up(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    refused = {"code": 2, "message": "api_server.py: error: unrecognized arguments: --no-such-flag"}
    write_config(fake={"specdec": {"exit_at_start": refused}})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*the baseline came up, speculation did not: the specdec server exited with code 2 after * s: this vLLM does not know: --no-such-flag*",
            "*vLLM says: api_server.py: error: unrecognized arguments: --no-such-flag*",
            "*See */.specdec/fake/specdec.log",
            "*Correct it in `serve`, `serve_specdec` or `command`*",
        ]
    )


def test_the_baseline_did_not_come_up(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake=BROKEN)
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*the baseline did not come up, so nothing could be compared: the baseline server exited with code 1*"]
    )


def test_the_second_test_that_needs_the_server_gets_one_line(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config(fake=BROKEN)
    pytester.makepyfile(test_two=TWO_LOADS)
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=2)
    output = result.stdout.str()
    assert output.count("vLLM says:") == 1
    assert "did not start earlier in this run: the baseline server exited with code 1" in output


def test_an_unknown_error_is_quoted_with_the_end_of_the_log(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"exit_at_start": {"code": 1, "message": "QueerError: something new"}})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json")
    result.stdout.fnmatch_lines(["*exited with code 1 after * s: QueerError: something new", "*The end of its log:*"])


def test_what_vllm_changed_and_how_the_servers_differ_is_shown(
    pytester: pytest.Pytester,
    write_config: Callable[..., None],
    write_gate: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = "WARNING 07-01 12:00:00 [v.py:1] Async scheduling not supported with ngram-based speculative decoding and will be disabled."
    write_config(fake={"log_lines": [change]}, serve_specdec={"max_num_seqs": 64})
    write_gate("tpot_gain=0.99")
    pytester.runpytest("--specdec-config=fake.json").stdout.fnmatch_lines(
        [
            "*vLLM changed, on both sides: asynchronous scheduling is off*",
            "*differs besides speculation: *max_num_seqs default against 64*",
        ]
    )
    capsys.readouterr()
    main(["show"])
    shown = capsys.readouterr().out
    assert "vLLM changed, on both sides: asynchronous scheduling is off" in shown
    assert "differs besides speculation: max_num_seqs default against 64" in shown


def test_failed_requests_name_the_log_and_advise_no_tolerance_for_many(
    pytester: pytest.Pytester, write_config: Callable[..., None], write_gate: Callable[..., None]
) -> None:
    write_config(fake={"http_error": {"status": 500, "every": 3}})
    write_gate()
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*requests of the baseline arm failed; the first: *", "*See */.specdec/baseline/baseline.log"]
    )
    result.stdout.no_fnmatch_line("*max_failures=*")
