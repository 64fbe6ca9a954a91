"""vLLM's offline engine: ``vllm.LLM`` under the flags that a server would get, in a process of its own.

It is owned like a server: a supervisor ends it, and whatever it started, when this process goes away for any reason.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import InvalidMeasurement, LaunchError
from pytest_specdec.core.masked_text import secret_values
from pytest_specdec.serving import offline_engine
from pytest_specdec.serving.command import masked_argv, plan_launch
from pytest_specdec.serving.device_lock import DeviceLocks
from pytest_specdec.serving.engine_metrics import counters_of
from pytest_specdec.serving.failures import Cause, find_cause, quote
from pytest_specdec.serving.log_tables import Circumstances
from pytest_specdec.serving.machine import Machine
from pytest_specdec.serving.pool import LOCK_TIMEOUT_S, SILENCE_TIMEOUT_S, fresh_log
from pytest_specdec.serving.process import environment_of
from pytest_specdec.serving.result_folder import ResultFolder, create_log
from pytest_specdec.serving.server_log import GROWS_TO, ServerLog
from pytest_specdec.serving.supervisor import Supervisor
from pytest_specdec.serving.versions import interpreter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Arm, ServerCounters
    from pytest_specdec.serving.command import LaunchPlan

_POLL_S = 0.25
_PHASES = {"starting the HTTP server": "generating"}
"""What follows the engine's start here."""


@dataclass(frozen=True)
class OfflineRequest:
    """One request. Exactly one of ``prompt`` and ``messages`` is set."""

    max_tokens: int
    seed: int
    prompt: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True)
class OfflineRun:
    """What the engine answered and counted."""

    arm: Arm
    token_ids: tuple[tuple[int, ...], ...]
    """Of each answer, in the order of the requests; an end token is the last of them, as in a server's stream."""
    finish_reasons: tuple[str | None, ...]
    counters: ServerCounters
    """Of the engine's whole life, which had nothing else to do."""
    seconds: float
    """Of generating everything at once, kernels compiled on the way included: no measure of speed."""
    startup_s: float
    version: str | None
    command: tuple[str, ...]
    """The words of a server under the same flags, secrets masked."""
    log: str


def run_offline(
    config: SpecConfig,
    arm: Arm,
    requests: Sequence[OfflineRequest],
    load: LoadSpec,
    *,
    directory: Path,
    progress: Callable[[str], None] = lambda _: None,
    machine: Machine | None = None,
    lock_directory: Path | None = None,
) -> OfflineRun:
    """Have ``vllm.LLM`` answer the requests, all at once, and end it.

    Args:
        config: Model, flags, environment and interpreter.
        arm: With or without speculation.
        requests: What to answer.
        load: ``temperature``, ``top_p``, ``top_k`` and ``ignore_eos`` of every request.
        directory: Under it is the log, in the config's folder.
        progress: Told the phase several times a second.
        machine: Whose devices are locked meanwhile; default: this one's.
        lock_directory: Where the locks are, see :class:`DeviceLocks`.

    Raises:
        LaunchError: The engine cannot be started here, did not come up, or failed while it generated; with the cause from its log.
        InvalidMeasurement: It counted other tokens than it returned.
    """
    plan = plan_launch(config, arm, port=1, served_name="offline")
    interpreter, words = _taken_apart(config, plan)
    home = directory.resolve() / config.id
    folder, locks = ResultFolder(directory), DeviceLocks(lock_directory)
    devices = [device.index for device in (machine or Machine()).devices(environment_of(plan))]
    try:
        folder.take(timeout_s=LOCK_TIMEOUT_S, progress=progress)
        locks.take(devices, timeout_s=LOCK_TIMEOUT_S, progress=progress)
        job, report = home / f".offline-{arm}.job.json", home / f".offline-{arm}.report.json"
        log = fresh_log(home, f"offline-{arm}")
        create_log(log)
        report.unlink(missing_ok=True)
        job.write_text(json.dumps(_job(words, requests, load, report)), encoding="utf-8")
        try:
            _run(
                [*interpreter, offline_engine.__file__, str(job)],
                plan,
                log_path=log,
                locks=locks,
                startup_timeout_s=config.startup_timeout_s,
                progress=progress,
            )
            said = json.loads(report.read_text(encoding="utf-8"))
        finally:
            job.unlink(missing_ok=True)
            report.unlink(missing_ok=True)
    finally:
        locks.release()
        folder.release()
    return _checked(
        OfflineRun(
            arm=arm,
            token_ids=tuple(tuple(answer["token_ids"]) for answer in said["answers"]),
            finish_reasons=tuple(answer["finish_reason"] for answer in said["answers"]),
            counters=counters_of(said["metrics"]),
            seconds=said["generate_s"],
            startup_s=said["startup_s"],
            version=said["version"],
            command=tuple(masked_argv(plan.argv)),
            log=str(log),
        )
    )


def _taken_apart(config: SpecConfig, plan: LaunchPlan) -> tuple[list[str], list[str]]:
    """The interpreter, and what the server would get behind its name.

    Raises:
        LaunchError: The command hides the interpreter.
    """
    interpreter = interpreter_of(plan.argv)
    if interpreter is None:
        raise LaunchError(
            f"the offline engine needs the interpreter that vLLM is installed in, and {plan.argv[0]!r} does not tell it",
            where=config.where("command"),
            remedy="Name it in a config for this purpose: command: [/opt/vllm/bin/python, -m, vllm.entrypoints.openai.api_server].",
        )
    words = list(plan.argv)
    by_module = "-m" in words and interpreter == words[0]
    start = words.index("-m") + 2 if by_module else 1
    options = words[1 : start - 2] if by_module else []
    start += words[start : start + 1] == ["serve"]
    return [interpreter, *options], words[start:]


def _job(words: Sequence[str], requests: Sequence[OfflineRequest], load: LoadSpec, report: Path) -> dict[str, Any]:
    return {
        "words": list(words),
        "requests": [asdict(request) for request in requests],
        # As requests to a server state them: no default of the engine or the model decides.
        "sampling": {
            "temperature": load.temperature,
            "top_p": load.top_p,
            "top_k": load.top_k,
            "repetition_penalty": 1.0,
            "ignore_eos": load.ignore_eos,
        },
        "report": str(report),
    }


def _run(
    argv: Sequence[str],
    plan: LaunchPlan,
    *,
    log_path: Path,
    locks: DeviceLocks,
    startup_timeout_s: float,
    progress: Callable[[str], None],
) -> None:
    log = ServerLog(log_path)
    supervisor = Supervisor(
        argv,
        env=environment_of(plan) | {"PYTHONSAFEPATH": "1"},
        cwd=plan.cwd,
        log=log_path,
        private_fds=locks.descriptors,
    )
    waited_s = 0.0
    trouble = ""
    try:
        while supervisor.exit is None and not trouble:
            supervisor.listen(_POLL_S)
            waited_s += _POLL_S
            log.follow()
            phase = _PHASES.get(log.phase, log.phase)
            progress(f"offline engine: {phase}")
            if log.silent_s > SILENCE_TIMEOUT_S:
                trouble = f"wrote nothing to its log for {SILENCE_TIMEOUT_S:.0f} s, while {phase}"
            elif phase != "generating" and waited_s > startup_timeout_s:
                trouble = f"was not ready after {startup_timeout_s:.0f} s, while {phase}"
            elif log.overgrown:
                trouble = f"wrote more than {GROWS_TO / 1024**3:.3g} GiB to its log"
    finally:
        supervisor.end()
    if supervisor.error is not None:
        trouble = f"could not be started: {supervisor.error}"
    elif not trouble and supervisor.exit is not None and supervisor.exit.code != 0:
        trouble = str(supervisor.exit)
    if trouble:
        raise _failure(trouble, plan, log, supervisor)


def _failure(trouble: str, plan: LaunchPlan, log: ServerLog, supervisor: Supervisor) -> LaunchError:
    lines, secrets = log.lines(), secret_values(plan.argv, plan.env)
    ended = supervisor.exit if trouble == str(supervisor.exit) else None
    cause = find_cause(lines, ended, Circumstances(arm=plan.arm, method=plan.method), secrets) or Cause("")
    what = f"the offline engine ({plan.arm}) {trouble}" + (f": {cause.what}" if cause.what else "")
    said = f"\n  vLLM says: {cause.said}" if cause.said else quote(lines, secrets=secrets)
    error = LaunchError(what + said, where=str(log.path), remedy=cause.remedy)
    error.launched = True
    return error


def _checked(run: OfflineRun) -> OfflineRun:
    returned, counted = sum(map(len, run.token_ids)), run.counters.generation_tokens
    if counted is not None and counted != returned:
        raise InvalidMeasurement(
            f"the offline engine returned {returned} tokens and counted {counted}, so its counters are not those of these answers",
            where=run.log,
            remedy="Please report this with the log.",
        )
    return run
