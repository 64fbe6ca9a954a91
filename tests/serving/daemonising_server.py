"""The stub server with a daemon beside it: ``daemonising_server.py KIND MARK PORT NAME``.

The daemon has what daemons have: a session of its own, no parent, no open files. MARK is its last argument.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

READY = "import os, signal, sys; open(sys.argv[1] + '/daemon', 'w').close()\n"
KINDS = {
    "waits": READY + "signal.pause()",
    "comes back": """
import os, signal, sys
def again(*_):
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    os._exit(0)
signal.signal(signal.SIGTERM, again)
"""
    + READY
    + "signal.pause()",
    "is stopped": READY + "os.kill(os.getpid(), signal.SIGSTOP); signal.pause()",
}
"""What it does; the file ``daemon`` in the folder MARK says that it is there."""


def main() -> None:
    kind, mark, *stub = sys.argv[1:]
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execv(sys.executable, [sys.executable, "-c", KINDS[kind], mark])  # noqa: S606 - as a daemon starts
        os._exit(0)
    os.wait()
    server = str(Path(__file__).with_name("stub_server.py"))
    os.execv(sys.executable, [sys.executable, server, *stub, "serves", "3"])  # noqa: S606 - it stays this process


if __name__ == "__main__":
    main()
