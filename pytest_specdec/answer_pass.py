"""One pass of requests to one arm, asked for its answers and not for its times; beside the timed rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.errors import RequestsFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Arm, RequestSample
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.progress import Progress
    from pytest_specdec.serving.process import Server
    from pytest_specdec.stage import Stage


def ready_arm(measurement: Measurement, stage: Stage, arm: Arm) -> Server:
    """An arm's server, up and awake, and known to the measurement.

    Raises:
        CannotMeasure: It does not come up.
    """
    server = stage.ready(arm)
    measurement.servers.setdefault(server.identity, server)
    return server


def ask_arm(
    measurement: Measurement,
    stage: Stage,
    progress: Progress,
    *,
    arm: Arm,
    plan: Sequence[PlannedRequest],
    load: LoadSpec,
    what: str,
    doing: str,
    by_logprobs: bool = False,
) -> tuple[RequestSample, ...]:
    """Every answer of a plan, in its order.

    Args:
        measurement: Whose arm is asked.
        stage: Its servers.
        progress: Told what goes on.
        arm: Which of them.
        plan: What to send.
        load: Concurrency and sampling; it also says how many requests may fail.
        what: Completes "eagle3: ".
        doing: Completes "2 of 6 requests of the baseline arm failed while ".
        by_logprobs: Ask for the tokens as names of logprobs, where the server sends no token ids.

    Raises:
        RequestsFailed: More requests than the load tolerates.
        CannotMeasure: A server does not come up, or is gone.
    """
    from pytest_specdec.load.asking import ask_all
    from pytest_specdec.rounds import endpoint_of
    from pytest_specdec.serving.process import all_alive

    server = ready_arm(measurement, stage, arm)
    progress.phase(f"{measurement.config.id}: {what}")
    samples = ask_all(
        endpoint_of(server),
        plan,
        load,
        alive=all_alive(stage.up()),
        on_progress=lambda done, total: progress.detail(f"{done}/{total} requests"),
        by_logprobs=by_logprobs,
    )
    failed = [sample for sample in samples if sample.error is not None]
    if len(failed) > load.max_failures * len(samples):
        raise RequestsFailed(
            f"{len(failed)} of {len(samples)} requests of the {arm} arm failed while {doing}; "
            f"the first: request {failed[0].index}: {failed[0].error}",
            where=str(server.log_path),
        )
    return samples
