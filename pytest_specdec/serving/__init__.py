"""vLLM servers as processes: how to start, watch, query and end them."""

from __future__ import annotations
