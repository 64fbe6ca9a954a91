"""For suites that use this plugin: a stand-in for vLLM, so that gates can be tested without a model or a GPU.

::

    from pytest_specdec.testing import FakeVllm

    with FakeVllm(speculative_config={"method": "eagle3", "num_speculative_tokens": 3}, tpot_ms=5) as server:
        print(server.base_url)
"""

from __future__ import annotations

from pytest_specdec.testing.launcher import FakeVllm, FakeVllmError

__all__ = ["FakeVllm", "FakeVllmError"]
