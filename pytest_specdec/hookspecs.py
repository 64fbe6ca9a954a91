"""Hooks that a ``conftest.py`` or another plugin may implement. Each docstring's example can be pasted as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_specdec.core.launched import Launched
    from pytest_specdec.core.own_objectives import OwnObjective
    from pytest_specdec.core.report_section import ReportSection
    from pytest_specdec.core.results import ResultDocument
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.core.verdict import Verdict

hookspec = pluggy.HookspecMarker("pytest")


@hookspec(firstresult=True)
def pytest_specdec_server_command(config: pytest.Config, arm: Arm, argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """Change the command line of a server just before it is started; the first answer that is not None is used.

    Whatever it adds should be added for both arms: anything that differs besides speculation ends up in the gain::

        def pytest_specdec_server_command(arm, argv):
            return ("taskset", "-c", "0-15", *argv)
    """


@hookspec(firstresult=True)
def pytest_specdec_launch(  # noqa: PLR0917 - pluggy passes them by name
    config: pytest.Config, arm: Arm, argv: tuple[str, ...], env: dict[str, str], served_name: str, port: int
) -> Launched | None:
    """Start a server elsewhere, in a cluster or on another machine; None leaves it to the plugin.

    ``argv`` is the whole command line, with ``--host 127.0.0.1 --port PORT``: change these two as the place demands. ``env`` is to be added
    to the environment there. The server must serve its model under ``served_name``. Return at once: the plugin waits until
    it answers. Where this hook is implemented, how servers share devices is its business (``placement: together``)::

        from pytest_specdec import Launched

        def pytest_specdec_launch(arm, argv, env, port):
            job = my_cluster.submit([*argv, "--host", "0.0.0.0"], env=env)
            return Launched(url=f"http://{job.host}:{port}", stop=job.cancel)
    """


@hookspec
def pytest_specdec_objectives(config: pytest.Config) -> Sequence[OwnObjective] | None:
    """Add names to ``spec_slo``: a figure of every round, judged by its interval like any other objective.

    ::

        from pytest_specdec import OwnObjective

        def longest_wait_s(baseline, specdec):
            return max(sample.token_times_s[0] - sample.sent_s for sample in specdec.successes)

        def pytest_specdec_objectives():
            return [OwnObjective("max_wait_s", "s", "lower", "longest TTFT of a round", longest_wait_s)]
    """


@hookspec
def pytest_specdec_notes(config: pytest.Config, comparison: Comparison) -> Sequence[str] | None:
    """Say something about a measurement: notes stand below its figures in failures, reports and result files.

    Asked after every extension; ``comparison`` has all rounds so far::

        def pytest_specdec_notes(comparison):
            if any(device.temperature_c and device.temperature_c > 80 for run in comparison.runs for device in run.devices):
                return ["a device was above 80 degrees"]
    """


@hookspec
def pytest_specdec_report_sections(config: pytest.Config, document: ResultDocument) -> Sequence[ReportSection] | None:
    """Add sections to the terminal's report, the Markdown and the page, when the run is over.

    ``document`` is what the result file will hold; the sections are kept in it, too::

        from pytest_specdec import ReportSection

        def pytest_specdec_report_sections(document):
            rows = [(gate.nodeid, gate.judgement) for gate in document.gates]
            return [ReportSection("Gates at a glance", table=[("test", "verdict"), *rows])]
    """


@hookspec(firstresult=True)
def pytest_specdec_replace_verdicts(
    item: pytest.Item, comparison: Comparison, verdicts: tuple[Verdict, ...]
) -> Sequence[Verdict] | None:
    """Have the last word on a test's verdicts; the first answer that is not None is used, and tables say so.

    There must be one verdict for each given one. Knowing that a machine is not the one that counts::

        from dataclasses import replace

        def pytest_specdec_replace_verdicts(item, verdicts):
            if item.get_closest_marker("informative"):
                return [replace(verdict, outcome="ok") for verdict in verdicts]
    """


@hookspec
def pytest_specdec_measured(config: pytest.Config, comparison: Comparison) -> None:
    """See a comparison that is measured or has got more rounds, with its raw samples; a self-test's, too.

    ::

        def pytest_specdec_measured(comparison):
            print(comparison.config_id, comparison.rounds, "rounds")
    """


@hookspec
def pytest_specdec_verdict(item: pytest.Item, verdicts: tuple[Verdict, ...]) -> None:
    """See the verdicts on a test's objectives, before a miss fails it.

    ::

        def pytest_specdec_verdict(item, verdicts):
            for verdict in verdicts:
                print(item.nodeid, verdict.requirement.label, verdict.outcome)
    """
