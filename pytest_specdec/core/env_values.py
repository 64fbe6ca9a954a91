"""Environment variables of vLLM that it reads as numbers: a unit or a word in one ends the server with a ValueError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.serve_rules import Problem

if TYPE_CHECKING:
    from pytest_specdec.core.places import KeyPath

_READ_AT_START = (
    "VLLM_CONFIGURE_LOGGING",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
    "VLLM_ENGINE_READY_TIMEOUT_S",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
    "VLLM_SERVER_DEV_MODE",
)
_READ_WHEN_NEEDED = (
    "VLLM_BATCH_INVARIANT",
    "VLLM_DP_MASTER_PORT",
    "VLLM_DP_RANK",
    "VLLM_DP_SIZE",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
    "VLLM_MLA_DISABLE",
    "VLLM_MQ_MAX_CHUNK_BYTES_MB",
    "VLLM_NIXL_SIDE_CHANNEL_PORT",
    "VLLM_RINGBUFFER_WARNING_INTERVAL",
    "VLLM_TRACE_FUNCTION",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_V1_OUTPUT_PROC_CHUNK_SIZE",
    "VLLM_XGRAMMAR_CACHE_MB",
)
"""``vllm/envs.py`` of 0.32.0: those that ``int()`` is called on and that users set."""


def number_problem(keys: KeyPath, name: str, value: object) -> Problem | None:
    """What is wrong with the value of a variable that must be a whole number; None when nothing is.

    Args:
        keys: Where the value stands.
        name: Of the variable.
        value: As the file has it.
    """
    if name not in (*_READ_AT_START, *_READ_WHEN_NEEDED) or not isinstance(value, str):
        return None
    try:
        int(value)
    except ValueError:
        severity = "error" if name in _READ_AT_START else "warning"
        unit = " It is in GiB." if name == "VLLM_CPU_KVCACHE_SPACE" else ""
        what = f'"{value}" is no whole number, and vLLM reads it as one'
        return Problem(keys, what, f"Write the number alone, without a unit.{unit}", severity)
    return None
