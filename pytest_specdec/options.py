"""Command-line options and ini values: their declarations. Importing this must stay cheap: every pytest run does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MEASURE_INI = {
    "specdec_rounds": "rounds measured before the first verdict (default 4)",
    "specdec_max_rounds": "rounds after which an unsure verdict stays unsure (default 12)",
    "specdec_budget_s": "seconds of measuring per comparison after which no further round is started (default 900)",
    "specdec_confidence": "two-sided confidence of every verdict (default 0.95)",
}

PURPOSES = ("specdec_plan", "specdec_self_test", "specdec_tune", "specdec_dynamic")
"""What a run can be for beside its tests."""
NEED_CONFIG = (*PURPOSES, "specdec_attach")


def add_options(parser: pytest.Parser) -> None:
    """Declare everything; nothing is read here."""
    group = parser.getgroup("specdec", "speculative decoding (pytest-specdec)")
    group.addoption(
        "--specdec-config",
        action="append",
        metavar="FILE",
        help="JSON or YAML: a vLLM speculative config, or an envelope around one, or a folder of them. Repeat it to compare "
        "several; tests then run once per config against one baseline, and the end of the run ranks the configs.",
    )
    group.addoption("--specdec-model", metavar="MODEL", help="target model of bare speculative configs")
    group.addoption("--specdec-dir", metavar="DIR", help="where logs and results go (default .specdec)")
    group.addoption(
        "--specdec-require",
        action="store_true",
        default=None,
        help="fail the run when no gate was judged, whatever the reason",
    )
    group.addoption(
        "--specdec-unsure",
        choices=("fail", "pass"),
        help="what an objective does that is still unsure after the last round (default fail)",
    )
    group.addoption(
        "--specdec-allow",
        action="append",
        choices=("synthetic", "lossy", "foreign-traffic"),
        help="measure although acceptance is made up (synthetic), verification is lossy, or others use the servers of --specdec-attach "
        "meanwhile (foreign-traffic); labelled in every report",
    )
    group.addoption(
        "--specdec-attach",
        metavar="BASELINE_URL,SPECDEC_URL",
        help="measure two servers that run already instead of launching any; a key is taken from SPECDEC_API_KEY, other headers "
        "from SPECDEC_HEADERS (a JSON object)",
    )
    group.addoption(
        "--specdec-keep",
        action="store_true",
        help="leave the servers up at the end, and print the --specdec-attach that measures them again and how to end them",
    )
    group.addoption(
        "--specdec-keep-outputs",
        action="store_true",
        help="keep prompts and answers that differ, in a private file of the result folder, and quote them in failures; "
        "without it reports hold positions and lengths only",
    )
    group.addoption(
        "--specdec-tune",
        action="store_true",
        help="look for the best num_speculative_tokens: measure two, predict the others, measure the one that is recommended",
    )
    group.addoption(
        "--specdec-plan",
        action="store_true",
        help="print what would be started and measured, how long it takes and what it could prove; start nothing",
    )
    group.addoption(
        "--specdec-self-test",
        action="store_true",
        help="judge the baseline against itself: how noisy is this machine, and how often would a verdict be wrong",
    )
    group.addoption(
        "--specdec-dynamic",
        action="store_true",
        help="find the K of every load: measure several K at the loads of a test that has a list of them, write a config with "
        "num_speculative_tokens_per_batch_size beside the given one, and gate it in the same run",
    )
    group.addoption(
        "--specdec-replace",
        action="store_true",
        help="let --specdec-dynamic replace a config that is there already",
    )
    group.addoption(
        "--specdec-report",
        action="append",
        metavar="KIND[:PATH]",
        help="also write a report: html or md, by default report.html or report.md in the result folder; repeatable",
    )
    group.addoption(
        "--specdec-no-job-summary",
        action="store_true",
        help="do not append the report to the file that GITHUB_STEP_SUMMARY names",
    )
    group.addoption(
        "--specdec-acceptance",
        action="append",
        metavar="NAME=VALUE",
        help="a threshold or size of the advice and of the acceptance procedure (pytest --pyargs "
        "pytest_specdec.acceptance), such as tpot_gain=0.2 or high=64; repeatable",
    )
    group.addoption(
        "--specdec-save",
        nargs="?",
        const="",
        metavar="NAME",
        help="keep this run's results for later runs to be compared with; write --specdec-save=NAME to find them by a name, too",
    )
    group.addoption(
        "--specdec-compare",
        metavar="FILE|last|BRANCH",
        help="hold this run against saved results: those of a file, of the last run whose gates did not fail, or of a branch, a "
        "commit or a NAME; max_regression is judged by them",
    )
    group.addoption(
        "--specdec-history", metavar="DIR", help="where saved results are (default: history in the result folder)"
    )
    group.addoption(
        "--specdec-prometheus",
        metavar="URL",
        help="judge tests with the fixture spec_canary on live traffic that this Prometheus has scraped; start nothing for them",
    )
    group.addoption(
        "--specdec-canary-baseline",
        metavar="SELECTOR",
        help="labels of the servers without speculation, such as '{version=\"stable\"}'",
    )
    group.addoption("--specdec-canary-specdec", metavar="SELECTOR", help="labels of the servers with speculation")
    group.addoption("--specdec-canary-window", metavar="TIME", help="the last 30m (default), 6h, 1d of both")
    parser.addini("specdec_history", "where saved results are (default: history in the result folder)")
    parser.addini("specdec_report", "reports to write, KIND[:PATH], one a line", type="linelist")
    parser.addini("specdec_job_summary", "append to GITHUB_STEP_SUMMARY where it is set", type="bool", default=True)
    parser.addini("specdec_acceptance", "NAME=VALUE of the acceptance procedure, one a line", type="linelist")
    parser.addini("specdec_config", "config files or folders, one a line, relative to the ini file", type="linelist")
    parser.addini("specdec_model", "target model of bare speculative configs")
    parser.addini("specdec_dir", "where logs and results go (default .specdec)")
    parser.addini(
        "specdec_workloads", "NAME = PATH of workload files, one a line, relative to the ini file", type="linelist"
    )
    parser.addini("specdec_require", "fail the run when no gate was judged", type="bool", default=False)
    parser.addini("specdec_unsure", "fail or pass: what an objective does that stays unsure")
    for name, text in MEASURE_INI.items():
        parser.addini(name, text)


def asked(config: pytest.Config) -> bool:
    """Whether this run is about speculative decoding: a config, what needs one, live traffic, or the demand that there be gates."""
    names = ("specdec_config", "specdec_require")
    return any(config.getoption(name) for name in ("specdec_prometheus", *NEED_CONFIG)) or any(
        config.getoption(name) or config.getini(name) for name in names
    )
