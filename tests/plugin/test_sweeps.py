"""Several loads in one test: each is a comparison of its own, the gate holds all of them, and the crossover is a figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# Alone a request gains 60 %; every other one in flight costs the speculating server a whole step more.
FALLING = {"specdec": {"tpot_ms_per_running": 8}, "tpot_ms": 8, "answer_tokens": [16, 16], "jitter": 0.01}
LADDER = "workload='tiny', concurrency=[1, 2, 4], num_requests=6, max_tokens=16"


def gate(slo: str, load: str = LADDER, body: str = "pass") -> str:
    return f"""
        import pytest

        @pytest.mark.spec_load({load})
        @pytest.mark.spec_slo({slo})
        def test_gate(spec_comparison):
            {body}
    """


@pytest.fixture
def results(pytester: pytest.Pytester) -> Callable[[], Any]:
    return lambda: json.loads((pytester.path / ".specdec" / "results.json").read_text())


def test_a_sweep_shows_gain_against_load_and_fails_where_it_is_missed(
    pytester: pytest.Pytester, write_config: Callable[..., None], results: Callable[[], Any]
) -> None:
    write_config(fake=FALLING)
    pytester.makepyfile(gate("tpot_gain=0.1, min_crossover_concurrency=4"))
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*2 of 4 objectives missed: tpot_gain @ concurrency 4 * % < 10 %, min_crossover_concurrency * < 4*",
            "*ok*tpot_gain @ concurrency 1*",
            "*ok*tpot_gain @ concurrency 2*",
            "*FAIL*tpot_gain @ concurrency 4*",
            "*FAIL*min_crossover_concurrency*>= *4*2 .. 4*",
            "*concurrency*TPOT gain*throughput gain*requests*rounds",
            " *1 * % * 6 *3",
            " *2 * % * 8 *3",
            " *4 *-* % * 16 *3",
            "*the TPOT gain is gone at concurrency * (2 .. 4)*",
            "*workload tiny, 3 rounds of 16 requests at concurrency 4*",
            "*test_gate?fake?: TPOT gain * % @ concurrency 1, * % @ 2, -* % @ 4; gone at concurrency * (2 .. 4)",
        ]
    )
    document = results()
    (record,) = document["gates"]
    assert [document["comparisons"][key]["load"]["concurrency"] for key in record["points"]] == [1, 2, 4]
    assert document["comparisons"][record["comparison"]]["load"]["concurrency"] == 4


def test_a_load_of_a_sweep_is_shared_with_a_test_of_that_load(
    pytester: pytest.Pytester, write_config: Callable[..., None], results: Callable[[], Any]
) -> None:
    write_config(fake=FALLING, load={"ladder": {"concurrency": [1, 2], "num_requests": 8}})
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_load(workload="tiny", load="ladder", max_tokens=16)
        @pytest.mark.spec_slo(min_crossover_concurrency=2)
        def test_ladder(spec_comparison):
            assert [point.load.concurrency for point in spec_comparison.points] == [1, 2]
            assert str(spec_comparison.crossover()) == "above 2"

        @pytest.mark.spec_load(workload="tiny", concurrency=2, num_requests=8, max_tokens=16)
        @pytest.mark.spec_slo(tpot_gain=0.0)
        def test_alone(spec_comparison):
            pass
        """
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(passed=2)
    document = results()
    assert len(document["comparisons"]) == 2
    assert document["gates"][1]["comparison"] in document["gates"][0]["points"]
    assert document["gates"][1]["points"] == []


def test_only_the_loads_that_are_unsure_get_more_rounds(
    pytester: pytest.Pytester, write_config: Callable[..., None], results: Callable[[], Any]
) -> None:
    # Alone a request gains two thirds. At concurrency 2 both servers are equally fast, and requests differ so much that some tens
    # of percent could be proven and no less; the seed's own difference is small.
    even = {
        "specdec": {"acceptance_length": 3.0, "tpot_ms_per_running": 16},
        "tpot_ms": 8,
        "answer_tokens": [16, 16],
        "jitter": 0.0,
        "request_jitter": 0.3,
        "seed": 2,
    }
    write_config(fake=even, measure={"rounds": 3, "max_rounds": 5})
    pytester.makepyfile(gate("tpot_gain=0", "workload='tiny', concurrency=[1, 2], num_requests=6, max_tokens=16"))
    pytester.runpytest("--specdec-config=fake.json").assert_outcomes(failed=1)
    document = results()
    rounds = [len(document["comparisons"][key]["runs"]) // 2 for key in document["gates"][0]["points"]]
    assert rounds == [3, 5]


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (
            "spec_load(concurrency=8)",
            "*a crossover needs the gain at several loads, and this test has one: concurrency 8*",
        ),
        ("spec_load(concurrency=[8, 1])", "*concurrency=?8, 1?: needs two values or more that rise*"),
        ("spec_load(concurrency=[1, 8])", "*=16 lies above the highest load of the sweep, 8*"),
        ("spec_load(request_rate=[1, 20])", "*this test sweeps request_rate*"),
    ],
)
def test_a_crossover_that_no_load_can_show_is_a_collection_error(
    pytester: pytest.Pytester, marks: str, message: str
) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.{marks}\n@pytest.mark.spec_slo(min_crossover_concurrency=16)\n"
        "def test_gate(spec_comparison): pass\n"
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([message])


def test_a_crossover_that_a_nearer_mark_removes_asks_for_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.spec_slo(min_crossover_concurrency=8), pytest.mark.spec_load(concurrency=[1, 8])]

        @pytest.mark.spec_load(concurrency=4)
        @pytest.mark.spec_slo(min_crossover_concurrency=None, tpot_gain=0.1)
        def test_gate(spec_comparison): pass
        """
    )
    assert pytester.runpytest("--co").ret == 0


def test_a_named_load_without_a_list_is_an_error_before_any_server_starts(
    pytester: pytest.Pytester, write_config: Callable[..., None]
) -> None:
    write_config(load={"one": {"concurrency": 2}})
    pytester.makepyfile(gate("min_crossover_concurrency=2", "load='one'"))
    result = pytester.runpytest("--specdec-config=fake.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a crossover needs the gain at several loads, and this test has one: concurrency 2*"])
    result.stdout.no_fnmatch_line("*starting*")


def test_a_plan_lists_every_load_of_a_sweep(pytester: pytest.Pytester, write_config: Callable[..., None]) -> None:
    write_config()
    pytester.makepyfile(gate("tpot_gain=0.1"))
    result = pytester.runpytest("--specdec-config=fake.json", "--specdec-plan")
    result.stdout.fnmatch_lines(
        ["*6 requests at concurrency 1,*", "*8 requests at concurrency 2,*", "*16 requests at concurrency 4,*"]
    )
