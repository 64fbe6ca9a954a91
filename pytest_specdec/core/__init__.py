"""Pure rules: configuration, definitions, statistics, verdicts. No I/O, no clock, no pytest, no vLLM."""

from __future__ import annotations
