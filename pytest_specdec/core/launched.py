"""A server that a plugin started elsewhere, as it is handed over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Launched:
    """What ``pytest_specdec_launch`` returns: a server that was started elsewhere."""

    url: str
    """``http://HOST:PORT``, without ``/v1``, as it is reached from here."""
    stop: Callable[[], object]
    """Ends it; called once. Return when it is gone: its device may be needed for the next server at once."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""
