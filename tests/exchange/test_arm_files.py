"""Files that vllm bench serve 0.32, GuideLLM 0.8.1 and AIPerf 0.13 wrote, in our terms; and files that cannot be used."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.acceptance import acceptance_of
from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.metrics import e2el_s, tpot_s, ttft_s
from pytest_specdec.exchange.arm_files import read_arm

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.exchange.foreign_run import ForeignRun

BENCH = Path(__file__).parents[1] / "data" / "bench"


def only(name: str) -> ForeignRun:
    (run,) = read_arm([BENCH / name])
    return run


def mean_ms(run: ForeignRun, quantity: Callable[[RequestSample], float | None]) -> float:
    return 1000 * statistics.fmean(value for one in run.samples if (value := quantity(one)) is not None)


def test_vllm_bench_has_percent_seconds_and_joint_shares() -> None:
    run = only("bench_spec.json")
    acceptance = acceptance_of(run.counters)
    assert acceptance.acceptance_rate == pytest.approx(0.4803030303)
    assert acceptance.acceptance_length == pytest.approx(2.8538011695906436)
    assert acceptance.per_position == pytest.approx(
        (0.6900584795321637, 0.5087719298, 0.38011695906, 0.27485380116959063)
    )
    assert run.concurrency == 4
    assert len(run.samples) == 12


def test_vllm_bench_means_are_its_own() -> None:
    run, said = only("bench_spec.json"), json.loads((BENCH / "bench_spec.json").read_text())
    assert mean_ms(run, tpot_s) == pytest.approx(said["mean_tpot_ms"])
    assert mean_ms(run, ttft_s) == pytest.approx(said["mean_ttft_ms"])
    assert [e2el_s(one) for one in run.samples] == pytest.approx(said["latencies"])


def test_every_line_of_an_appended_result_is_a_run() -> None:
    runs = read_arm([BENCH / "vllm_specdec.jsonl"])
    assert [run.where.rpartition(", ")[2] for run in runs] == ["line 1", "line 2"]
    assert [run.started_unix_s > 0 for run in runs] == [True, True]


def test_guidellm_tpot_is_without_ttft() -> None:
    run = only("guidellm_specdec.json")
    metrics = json.loads((BENCH / "guidellm_specdec.json").read_text())["benchmarks"][0]["metrics"]
    assert mean_ms(run, tpot_s) == pytest.approx(metrics["inter_token_latency_ms"]["successful"]["mean"])
    assert mean_ms(run, ttft_s) == pytest.approx(metrics["time_to_first_token_ms"]["successful"]["mean"])
    assert mean_ms(run, tpot_s) < 0.9 * metrics["time_per_output_token_ms"]["successful"]["mean"]


def test_guidellm_passes_on_what_the_server_says_of_requests() -> None:
    run = only("guidellm_specdec.json")
    assert run.counters.drafts == sum(one.spec.drafts for one in run.samples if one.spec)
    assert run.counters.accepted_per_position is not None
    assert sum(run.counters.accepted_per_position) == run.counters.accepted_tokens
    assert only("guidellm_baseline.json").counters.drafts is None


def test_aiperf_records_have_their_own_units() -> None:
    run = only("aiperf_specdec.jsonl")
    summary = json.loads((BENCH / "aiperf_summary.json").read_text())
    assert mean_ms(run, tpot_s) == pytest.approx(summary["inter_token_latency"]["avg"])
    assert mean_ms(run, ttft_s) == pytest.approx(summary["time_to_first_token"]["avg"])
    assert run.counters.accepted_per_position is not None
    assert sum(run.counters.accepted_per_position) == run.counters.accepted_tokens


@pytest.mark.parametrize("tool", ["guidellm_{}.json", "aiperf_{}.jsonl", "vllm_{}.jsonl"])
def test_same_place_is_the_same_request_in_both_arms(tool: str) -> None:
    base, spec = (read_arm([BENCH / tool.format(arm)])[0] for arm in ("baseline", "specdec"))
    assert [one.prompt_tokens for one in base.samples] == [one.prompt_tokens for one in spec.samples]
    assert len({one.prompt_tokens for one in base.samples}) > 1 or tool.startswith("vllm")


def test_dead_server_is_twelve_failed_requests() -> None:
    run = only("bench_dead_server_rc0.json")
    assert [one.error for one in run.samples] == ["the file gives no reason"] * 12


def edited(tmp_path: Path, name: str, change: Callable[[Any], None]) -> Path:
    data = json.loads((BENCH / name).read_text())
    change(data)
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return path


def without(*names: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for name in names:
            del data[name]

    return change


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "bench_spec.json",
            without("ttfts", "itls"),
            "holds totals only: ttfts, itls of the single requests are missing",
        ),
        (
            "bench_spec.json",
            lambda data: data["itls"].pop(),
            "its lists differ in length: input_lens 12, output_lens 12, ttfts 12, itls 11",
        ),
        ("bench_spec.json", lambda data: data.update(completed=11), "says that 11 requests completed, but 12"),
        (
            "bench_spec.json",
            lambda data: data.update(spec_decode_acceptance_rate=0.48),
            "says that 0.48 % of the draft tokens",
        ),
        ("bench_spec.json", lambda data: data.update(duration="long"), "duration: "),
        ("guidellm_specdec.json", lambda data: data["benchmarks"].extend(data["benchmarks"]), "holds 2 benchmarks"),
        (
            "guidellm_specdec.json",
            lambda data: data["benchmarks"][0]["requests"]["successful"].pop(),
            "keeps 11 of 12 requests",
        ),
        (
            "guidellm_specdec.json",
            lambda data: data["benchmarks"][0]["requests"]["successful"][0]["output_metrics"].update(total_tokens=None),
            "or no number of tokens",
        ),
        ("aiperf_summary.json", without(), "is AIPerf's summary"),
        ("aiperf_summary.json", lambda data: data.clear(), "is the result of no load generator that is known"),
    ],
)
def test_file_that_does_not_tell_is_an_error_that_says_what(
    name: str, change: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    path = edited(tmp_path, name, change)
    with pytest.raises(ResultFileError) as caught:
        read_arm([path])
    assert said in caught.value.what
    assert caught.value.where.startswith(str(path))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ('{"a": 1}\n{"a"', "line 2 is not JSON"),
        ("[]", "no load generator"),
        ("7", "no load generator"),
    ],
)
def test_file_that_is_no_result(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ResultFileError, match=said):
        read_arm([tmp_path / "r.json"])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match="No such file"):
        read_arm([tmp_path / "none.json"])


def test_aiperf_record_without_streaming(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (BENCH / "aiperf_specdec.jsonl").read_text().splitlines()]
    del records[0]["metrics"]["time_to_first_token"]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(ResultFileError, match="time_to_first_token is missing"):
        read_arm([tmp_path / "r.jsonl"])


def test_aiperf_unit_that_is_no_time(tmp_path: Path) -> None:
    text = (BENCH / "aiperf_specdec.jsonl").read_text().replace('"unit": "ms"', '"unit": "KB"')
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(ResultFileError, match="'KB', which is no unit of time"):
        read_arm([tmp_path / "r.jsonl"])


def test_failed_request_of_aiperf_keeps_its_reason(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (BENCH / "aiperf_specdec.jsonl").read_text().splitlines()]
    records[0] |= {"error": {"code": 500, "type": "Internal", "message": "boom"}, "metrics": {}}
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    (run,) = read_arm([tmp_path / "r.jsonl"])
    assert [one.error for one in run.samples if one.error] == ["boom"]


def test_aiperf_metric_that_is_no_number_matters_where_it_is_read(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (BENCH / "aiperf_specdec.jsonl").read_text().splitlines()]
    records[0]["metrics"]["something_new"] = {"value": {"a": "b"}, "unit": ""}
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert len(read_arm([tmp_path / "r.jsonl"])[0].samples) == 12
    records[0]["metrics"]["request_latency"]["value"] = "long"
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(ResultFileError, match="request_latency is no number"):
        read_arm([tmp_path / "r.jsonl"])
