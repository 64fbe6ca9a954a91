"""Acceptance on vLLM's offline engine: a workload through `vllm.LLM`, without HTTP."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.acceptance import acceptance_of, inconsistencies
from pytest_specdec.core.errors import CannotMeasure, ConfigError, InvalidMeasurement, SpecDecError, WorkloadError
from pytest_specdec.core.load_spec import LoadSpec, load_problems, merge_load

if TYPE_CHECKING:
    import argparse

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.workload import Workload
    from pytest_specdec.serving.offline import OfflineRun

_CONDITIONS = ("workload", "num_requests", "max_tokens", "temperature", "top_p", "top_k", "seed")
_MADE_UP = {"synthetic": "acceptance is made up", "fly": "verification is lossy"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    plain = LoadSpec()
    parser.add_argument("config", metavar="CONFIG", help="a config file, bare or an envelope")
    parser.add_argument(
        "--workload", metavar="NAME", help=f"of the config, bundled, or a file (default {plain.workload})"
    )
    parser.add_argument(
        "--num-requests", "--limit", metavar="N", type=int, help=f"how many (default {plain.num_requests})"
    )
    parser.add_argument(
        "--max-tokens", metavar="N", type=int, help=f"where a line has none of its own (default {plain.max_tokens})"
    )
    parser.add_argument("--temperature", metavar="T", type=float, help="default 0: greedy")
    parser.add_argument("--top-p", metavar="P", type=float, help="default 1: off")
    parser.add_argument("--top-k", metavar="K", type=int, help="default -1: off")
    parser.add_argument("--seed", metavar="N", type=int, help="choice of prompts and sampling (default 0)")
    parser.add_argument("--ignore-eos", action="store_true", help="write on to max_tokens")
    parser.add_argument("--arm", choices=("specdec", "baseline"), default="specdec", help="default specdec")
    parser.add_argument("--model", metavar="MODEL", help="target model of a bare config")
    parser.add_argument(
        "--dir", metavar="DIR", type=Path, default=Path(".specdec"), help="where log and result go (default .specdec)"
    )
    parser.add_argument("--json", action="store_true", help="print what is written, without the token ids")


def run(arguments: argparse.Namespace) -> str:
    """The figures of vLLM's own offline example; with every answer's token ids they are written to ``DIR/CONFIG/offline.json``.

    Raises:
        SpecDecError: Config, workload or conditions cannot be used, the engine did not start, or nothing can be believed.
    """
    from pytest_specdec.reporting.result_file import replace_file

    load = _load(arguments)
    config = _config(arguments.config, arguments.model)
    workload = _workload(load.workload, config)
    plan = planned(workload, load)
    progress = _Progress()
    try:
        ran = run_planned(config, arguments.arm, plan, load, directory=arguments.dir, progress=progress)
    finally:
        progress.close()
    data = as_data(config, workload, load, ran)
    path = arguments.dir / config.id / ("offline.json" if ran.arm == "specdec" else f"offline-{ran.arm}.json")
    replace_file(path, json.dumps(data, indent=1) + "\n")
    if arguments.json:
        return json.dumps({key: value for key, value in data.items() if key != "answers"}, indent=2)
    return "\n".join([*_lines(data, ran), f"result  {path}", f"log     {ran.log}"])


def planned(workload: Workload, load: LoadSpec) -> tuple[PlannedRequest, ...]:
    """The requests that a server would get in a round under the same load."""
    from pytest_specdec.load.arrivals import plan_requests

    return plan_requests(workload, load, round_index=0, fresh=False)


def run_planned(
    config: SpecConfig,
    arm: Arm,
    plan: tuple[PlannedRequest, ...],
    load: LoadSpec,
    *,
    directory: Path,
    progress: Any = lambda _: None,
) -> OfflineRun:
    """Planned requests through the offline engine.

    Raises:
        SpecDecError: As :func:`pytest_specdec.serving.offline.run_offline`.
    """
    from pytest_specdec.serving.offline import OfflineRequest, run_offline

    requests = [
        OfflineRequest(max_tokens=one.max_tokens, seed=one.seed, prompt=one.prompt.prompt, messages=one.prompt.messages)
        for one in plan
    ]
    return run_offline(config, arm, requests, load, directory=directory, progress=progress)


def _unasked(workload: Workload) -> list[str]:
    """What the engine was not asked, though the workload says it."""
    asking = sum(bool(prompt.asked) for prompt in workload.prompts)
    if not asking:
        return []
    return [
        f"{asking} of {len(workload.prompts)} prompts ask for a form of the answer or offer tools; the offline engine was not told, and answers freely"
    ]


def as_data(config: SpecConfig, workload: Workload, load: LoadSpec, ran: OfflineRun) -> dict[str, Any]:
    """What is written: fractions are fractions, what is undefined is null.

    Raises:
        CannotMeasure: The speculating engine counts no drafts.
        InvalidMeasurement: Its counters contradict each other.
    """
    from pytest_specdec.core.validity import verification_of

    data: dict[str, Any] = {
        "engine": "offline",
        "config": config.id,
        "arm": ran.arm,
        "vllm": ran.version,
        "command": list(ran.command),
        "workload": {"name": workload.name, "path": str(workload.path), "sha256": workload.sha256},
        "load": {name: getattr(load, name) for name in (*_CONDITIONS[1:], "ignore_eos")},
        "requests": len(ran.token_ids),
        "total_output_tokens": sum(map(len, ran.token_ids)),
        "startup_s": ran.startup_s,
        "generate_s": ran.seconds,
        "notes": [*workload.notes, *_unasked(workload)],
    }
    if ran.arm == "specdec":
        counters = ran.counters
        if counters.drafts is None:
            raise CannotMeasure(
                "the offline engine counts no drafts: it ran without speculation", where=ran.log, remedy="See its log."
            )
        if found := inconsistencies(counters, config.num_speculative_tokens):
            raise InvalidMeasurement(f"the engine's counters contradict each other: {'; '.join(found)}", where=ran.log)
        data |= asdict(acceptance_of(counters))
        if (verification := verification_of(config.speculative_config)) is not None:
            data["notes"].append(f"{verification} verification: {_MADE_UP[verification]}")
    answers = zip(ran.token_ids, ran.finish_reasons, strict=True)
    data["answers"] = [{"token_ids": list(ids), "finish_reason": reason} for ids, reason in answers]
    return data


def _lines(data: dict[str, Any], ran: OfflineRun) -> list[str]:
    from pytest_specdec.commands.acceptance import acceptance_lines

    lines = [f"total output tokens {data['total_output_tokens']}   ({data['requests']} requests, {data['arm']})"]
    if ran.arm == "specdec":
        lines += acceptance_lines(acceptance_of(ran.counters), ran.counters)
    return [*lines, *(f"note: {note}" for note in data["notes"])]


def _load(arguments: argparse.Namespace) -> LoadSpec:
    assert set(_CONDITIONS) <= {field.name for field in fields(LoadSpec)}  # noqa: S101 - names of the record
    given = {name: value for name in _CONDITIONS if (value := getattr(arguments, name)) is not None}
    if problems := load_problems(given):
        raise SpecDecError("; ".join(f"--{problem.replace('_', '-', 1)}" for problem in problems))
    return merge_load([given | {"ignore_eos": arguments.ignore_eos}])


def _config(path: str, model: str | None) -> SpecConfig:
    from pytest_specdec.serving.preflight import checked_configs, launch_findings, version_behind

    (config,), _ = checked_configs([path], default_model=model)
    found = launch_findings(config, version_behind(config))
    if errors := [finding for finding in found if finding.severity == "error"]:
        raise ConfigError(errors)
    return config


def _workload(name: str, config: SpecConfig) -> Workload:
    from pytest_specdec.load.bundled import bundled_workloads
    from pytest_specdec.load.workload import read_workload

    if name in config.workloads:
        entry = config.workloads[name]
        return read_workload(entry.path, name=name, options=entry.options())
    bundled = bundled_workloads()
    if name not in bundled and not Path(name).exists():
        raise WorkloadError(
            f"no workload is called {name!r}, and there is no such file",
            remedy=f"Known here: {', '.join(sorted({*config.workloads, *bundled}))}.",
        )
    return read_workload(bundled[name] if name in bundled else Path(name), name=name)


class _Progress:
    """The phase on stderr: rewritten on a terminal, a line for each elsewhere."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            sys.stderr.write(f"\r\x1b[K{text}" if sys.stderr.isatty() else f"{text}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal's line empty."""
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
