"""Marks that cannot be meant as written are errors while tests are collected, before any server starts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ("tpot_gian=0.3", "*unknown objective 'tpot_gian', did you mean 'tpot_gain'*"),
        ("min_acceptance=1.5", "*unknown objective 'min_acceptance'*"),
        ("0.3", "*keyword arguments only*0.3*"),
        ("", "*no objective given*"),
        ("tpot_gain=float('nan')", "*tpot_gain*nan*"),
        ("tpot_gain=True", "*tpot_gain*True*"),
        ("tpot_gain='0.3'", "*tpot_gain*'0.3'*"),
        ("tpot_gain=30", "*tpot_gain*did you mean 0.3*"),
        ("tpot_gain=1.0", "*tpot_gain*"),
        ("min_acceptance_at={}", "*min_acceptance_at*"),
        ("min_acceptance_at=0.7", "*min_acceptance_at*"),
        ("ttft_p95_ms=-1", "*ttft_p95_ms*"),
        ("e2el_gain=0.2", "*e2el_gain*natural ends*"),
    ],
)
def test_a_bad_objective_is_a_collection_error(pytester: pytest.Pytester, slo: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.spec_slo({slo})\ndef test_gate(spec_comparison): pass\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([message])


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("concurency=8", "*unknown name 'concurency', did you mean 'concurrency'*"),
        ("8", "*keyword arguments only*8*"),
        ("", "*nothing given*"),
        ("concurrency=True", "*concurrency=True*"),
        ("concurrency=0", "*concurrency=0*"),
        ("request_rate=float('nan')", "*request_rate=nan*"),
        ("request_rate=1, concurrency=8", "*exclude each other*"),
        ("num_requests=1.5", "*num_requests=1.5*"),
        ("rounds=1", "*rounds=1*"),
        ("rounds=6, max_rounds=4", "*rounds=6 is above max_rounds=4*"),
        ("load=3", "*load=3*"),
    ],
)
def test_a_bad_condition_is_a_collection_error(pytester: pytest.Pytester, load: str, message: str) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.spec_load({load})\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(spec_comparison): pass\n"
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([message])


def test_all_bad_marks_of_a_module_are_reported_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec_slo(tpot_gian=0.3)
        def test_one(spec_comparison): pass

        @pytest.mark.spec_slo(ttft_gian=0.3)
        def test_two(spec_comparison): pass
        """
    )
    result = pytester.runpytest("--co")
    result.stdout.fnmatch_lines(["*test_one*tpot_gain*", "*test_two*ttft_gain*"])
    assert "Traceback" not in result.stdout.str()


def test_a_mark_on_a_param_is_checked(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.spec_slo(tpot_gian=0.3))])
        def test_one(spec_comparison, n): pass
        """
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*test_one?2?*tpot_gain*"])


def test_a_mark_on_a_test_that_measures_nothing_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(): pass\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*does not use the fixture 'spec_comparison'*"])


def test_an_inherited_module_mark_is_ignored_by_tests_that_measure_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\npytestmark = pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_plain(): pass\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_xfail_without_strict_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.xfail\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(spec_comparison): pass\n"
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*strict=True*"])


MERGED = """
    import pytest
    from pytest_specdec.mark_merging import load_layers, requirements_for

    pytestmark = [pytest.mark.spec_slo(tpot_gain=0.3, min_acceptance_length=1.5), pytest.mark.spec_load(request_rate=2)]

    @pytest.fixture
    def merged(request):
        return {r.label: r.required for r in requirements_for(request.node, "ngram-4")}

    @pytest.fixture(autouse=True)
    def no_measuring(request): pass

    @pytest.fixture
    def spec_comparison(): pass

    def test_inherited(merged, spec_comparison):
        assert merged == {"tpot_gain": 0.3, "min_acceptance_length": 1.5}

    @pytest.mark.spec_slo(tpot_gain=0.1)
    def test_nearest_wins(merged, spec_comparison):
        assert merged == {"tpot_gain": 0.1, "min_acceptance_length": 1.5}

    @pytest.mark.spec_slo(min_acceptance_length=None)
    def test_none_removes(merged, spec_comparison):
        assert merged == {"tpot_gain": 0.3}

    @pytest.mark.spec_slo(tpot_gain=0.1)
    @pytest.mark.spec_slo(tpot_gain=0.0, configs="ngram*")
    @pytest.mark.spec_slo(tpot_gain=0.5, configs="eagle*")
    def test_matching_configs_are_nearer(merged, spec_comparison):
        assert merged["tpot_gain"] == 0.0

    class TestBase:
        pytestmark = pytest.mark.spec_slo(tpot_gain=0.2)

        def test_class(self, merged, spec_comparison):
            assert merged["tpot_gain"] == 0.2

        @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.spec_slo(tpot_gain=0.05))])
        def test_param(self, merged, spec_comparison, n):
            assert merged["tpot_gain"] == 0.05

    class TestDerived(TestBase):
        pytestmark = pytest.mark.spec_slo(tpot_gain=0.25)

        def test_class(self, merged, spec_comparison):
            assert merged["tpot_gain"] == 0.25

    @pytest.mark.spec_load(concurrency=3)
    def test_a_nearer_concurrency_replaces_a_rate(request, spec_comparison):
        from pytest_specdec.core.load_spec import merge_load
        load = merge_load(load_layers(request.node)[1])
        assert (load.concurrency, load.request_rate) == (3, None)
"""


def test_marks_merge_name_by_name_and_the_nearest_wins(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MERGED)
    result = pytester.runpytest("-q")
    result.assert_outcomes(passed=9)


def test_a_timeout_that_would_end_the_set_up_is_an_error(pytester: pytest.Pytester, write_config: object) -> None:
    write_config()  # type: ignore[operator] # a fixture that returns a function
    pytester.makepyfile(
        "import pytest\n@pytest.mark.timeout(60)\n@pytest.mark.spec_slo(tpot_gain=0.3)\ndef test_gate(spec_comparison): pass\n"
    )
    result = pytester.runpytest("--specdec-config=fake.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*timeout_func_only*timeout(0)*"])
