"""Why a run is refused although no test failed: gates were selected, and none of them was judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.marker import is_gate

if TYPE_CHECKING:
    import pytest

    from pytest_specdec.gates import Gates

_REASONS = 3
"""So many reasons for skipped gates are said."""


def why_refused(gates: Gates, session: pytest.Session) -> str | None:
    """In words, or None for a run that may be green."""
    options = gates.options
    if gates.config.getoption("collectonly") or options.plan or options.self_test or options.tune:
        return None
    judged = ("passed", "failed", "xfailed")
    if any(gate.outcome in judged and gate.verdicts for gate in gates.session.gates.values()):
        return None
    if options.require:
        return "no gate was judged, and --specdec-require asks for one"
    live = gates.config.getoption("specdec_prometheus")
    if not ((gates.configs or live) and any(is_gate(item) for item in session.items)):
        return None
    given = "a config" if gates.configs else "a Prometheus"
    lines = [f"{given} was given and gates were selected, but none was judged"]
    lines += [f"  skipped: {reason}" for reason in [*gates.skipped][:_REASONS]]
    if (more := len(gates.skipped) - _REASONS) > 0:
        lines.append(f"  and {more} more reason{'s' if more > 1 else ''}")
    return "\n".join(lines)
