"""Service-level objectives for vLLM's speculative decoding, as ordinary pytest tests.

The plugin registers itself; nothing needs to be imported for ``pytest --specdec-config=eagle3.json`` to work. For type hints
in tests there are :class:`SpecComparison` and :class:`SpecServers`; :class:`Launched`, :class:`OwnObjective` and
:class:`ReportSection` are for the hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specdec.handed import Launched, OwnObjective, ReportSection, SpecComparison, SpecServers

__all__ = ["Launched", "OwnObjective", "ReportSection", "SpecComparison", "SpecServers"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Late: every pytest run imports this package.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_specdec import handed

    return getattr(handed, name)
