"""What a server says of its own speculation while it starts: the only place where a silent fallback shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

# EngineCore's "Initializing a V1 LLM engine" line, vLLM 0.20 to 0.33.
_STATED = re.compile(
    r"speculative_config=(?:None|SpeculativeConfig\(method=(?P<method>None|'[^']*').*?num_spec_tokens=(?P<k>\d+|None))"
)


@dataclass(frozen=True)
class Attested:
    """Method and K in force, according to the log."""

    method: str | None
    num_speculative_tokens: int | None


def attested(log: str) -> Attested | None:
    """What the last start in a log says; None where the log does not say it at all (another version, a quiet log level)."""
    found = list(_STATED.finditer(log))
    if not found:
        return None
    method, k = found[-1]["method"], found[-1]["k"]
    return Attested(
        method.strip("'") if method and method != "None" else None,
        int(k) if k and k != "None" else None,
    )
