"""Fixtures for tests of the load generator."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.load.stub_server import Stub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens: it is bound, so that nobody else is given it meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
