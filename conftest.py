"""For the whole repository: pytest's own test tools, and signals that reach the tests about them."""

from __future__ import annotations

import signal

pytest_plugins = ["pytester"]

# A shell starts background jobs with SIGINT and SIGQUIT ignored, nohup everything with SIGHUP, and every process that a test starts
# would inherit that.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)
