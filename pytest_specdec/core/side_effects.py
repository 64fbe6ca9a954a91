"""What speculation costs besides time per token: facts about the servers, judged as they are, without an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.samples import Arm, Comparison
    from pytest_specdec.core.verdict import Requirement

_CAPACITY = "KV cache tokens"


def startup(evidence: Evidence, _: Requirement) -> Estimate:
    """The slowest start of the speculating server, in seconds: a fact without an interval.

    Raises:
        CannotMeasure: It was not started here, or beside the other server.
    """
    servers = [server for server in evidence.comparison.servers if server.arm == "specdec" and not server.attached]
    if any(server.started_beside for server in servers):
        raise CannotMeasure(
            "max_startup_s: the servers were started side by side, which slows each of them down",
            remedy="They start one after the other in a run in which a test is marked with max_startup_s.",
        )
    starts_s = [server.startup_s for server in servers]
    if not starts_s:
        raise CannotMeasure(
            "max_startup_s: the speculating server was not started here, so nobody saw how long it took"
        )
    return Estimate(value=max(starts_s), samples=len(starts_s), basis=f"slowest of {len(starts_s)} launches")


def kv_capacity_loss(evidence: Evidence, _: Requirement) -> Estimate:
    """Share of the baseline's KV cache, in tokens, that the speculating server does not have: the draft takes its memory.

    Raises:
        CannotMeasure: A server's log does not tell the size of its KV cache.
    """
    base, spec = (_capacity_tokens(evidence.comparison, arm) for arm in ("baseline", "specdec"))
    return Estimate(
        value=1 - spec / base,
        samples=1,
        basis="sizes in the servers' logs",
        remark=f"a KV cache of {base:,} tokens without, {spec:,} with speculation",
    )


def gpu_memory(evidence: Evidence, _: Requirement) -> Estimate:
    """The most that the speculating server's processes held on all its devices together during a run, in GiB.

    Raises:
        CannotMeasure: There is no GPU, or NVML does not tell processes' memory.
    """
    totals = []
    for run in evidence.comparison.arm("specdec"):
        held = [reading.server_memory_gib for reading in run.devices if reading.server_memory_gib is not None]
        if held and len(held) == len(run.devices):
            totals.append(sum(held))
    if not totals:
        raise CannotMeasure(
            "max_gpu_memory_gib: nobody saw how much GPU memory the speculating server holds",
            remedy="It takes a GPU, pip install 'pytest-specdec[gpu]', and NVML seeing the server's processes (in a container: --pid=host).",
        )
    return Estimate(value=max(totals), samples=len(totals), basis=f"most of {len(totals)} runs")


def _capacity_tokens(comparison: Comparison, arm: Arm) -> int:
    told = [
        server.facts.effective[_CAPACITY]
        for server in comparison.servers
        if server.arm == arm and server.facts is not None and _CAPACITY in server.facts.effective
    ]
    if not told:
        raise CannotMeasure(
            f"max_kv_capacity_loss: the {arm} server's log does not tell the size of its KV cache",
            remedy="Leave vLLM's log level at INFO (VLLM_LOGGING_LEVEL).",
        )
    return min(int(size.replace(",", "")) for size in told)
