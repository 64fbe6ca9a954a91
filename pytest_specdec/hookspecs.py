"""Hooks that a ``conftest.py`` or another plugin may implement. Each docstring's example can be pasted as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import pytest

    from pytest_specdec.core.launched import Launched
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
