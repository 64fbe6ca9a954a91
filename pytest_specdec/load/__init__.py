"""Requests: where prompts come from, when they are sent, how their streams are timed."""

from __future__ import annotations
