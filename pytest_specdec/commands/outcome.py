"""How a command says no: its output goes to stdout as always, and the exit code is not 0."""

from __future__ import annotations

from pytest_specdec.core.errors import SpecDecError


class Blocking(SpecDecError):  # noqa: N818 - the outcome of a check, not a failure of the command
    """What a check found should block whatever it guards."""

    def __init__(self, output: str, exit_code: int) -> None:
        super().__init__(output)
        self.exit_code = exit_code
