"""Reports: pure functions from a result document to text."""

from __future__ import annotations
