"""The command ``pytest-specdec``: what can be looked at without running tests.

Exit codes: 0, or 2 when the input cannot be used; the reason goes to stderr, so that stdout stays parsable. ``validate`` reports on
stdout whatever it finds, and exits with 2 for errors and, with ``--strict``, with 1 for warnings; ``judge`` exits with 1 like the gate.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from pytest_specdec import __version__
from pytest_specdec.commands import (
    acceptance,
    compare,
    export,
    history,
    judge,
    offline,
    report,
    rules,
    schema,
    show,
    validate,
    workload,
)
from pytest_specdec.commands.outcome import Blocking
from pytest_specdec.core.errors import SpecDecError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "validate": validate,
    "acceptance": acceptance,
    "offline": offline,
    "workload": workload,
    "show": show,
    "judge": judge,
    "report": report,
    "compare": compare,
    "history": history,
    "export": export,
    "rules": rules,
    "schema": schema,
}

_UNUSABLE = 2
_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        argv: Arguments without the program's name; those of the process when left out.

    Returns:
        The exit code. Wrong arguments end the process with 2, as argparse does.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    after: list[str] = []
    if words[:1] == ["validate"] and "--" in words:
        after = words[words.index("--") + 1 :]
        words = words[: words.index("--")]
    arguments = _parser().parse_args(words)
    arguments.after_dashes = after
    try:
        print(COMMANDS[arguments.command].run(arguments), flush=True)  # noqa: T201 - a command speaks
    except Blocking as outcome:
        print(outcome.what, flush=True)  # noqa: T201 - as above
        return outcome.exit_code
    except SpecDecError as error:
        print(f"pytest-specdec {arguments.command}: {error}", file=sys.stderr)  # noqa: T201 - as above
        return _UNUSABLE
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-specdec",
        description="Look at speculative decoding without running tests; the gate itself is `pytest --specdec-config=FILE`.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-specdec {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        # The first line of a command's docstring is its help.
        summary = (command.__doc__ or "").strip().splitlines()[0]
        command.add_arguments(subparsers.add_parser(name, help=summary, description=summary))
    return parser


if __name__ == "__main__":
    sys.exit(main())
