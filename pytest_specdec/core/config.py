"""A config, read, checked and ready to use: what to launch, and what the author wants measured."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from pytest_specdec.core import launcher, model_paths
from pytest_specdec.core.config_folder import files_behind
from pytest_specdec.core.config_form import form_of
from pytest_specdec.core.config_paths import model_findings, path_problems, server_words, target_of
from pytest_specdec.core.config_rules import rule_problems
from pytest_specdec.core.config_schema import (
    Devices,
    Envelope,
    LoadPoint,
    MeasureSettings,
    Placement,
    WorkloadEntry,
    config_json_schema,
)
from pytest_specdec.core.config_shape import shape_problems
from pytest_specdec.core.config_text import read_config_text, shown_path
from pytest_specdec.core.errors import ConfigError, Finding
from pytest_specdec.core.places import Place, key_path
from pytest_specdec.core.serve_rules import serve_problems
from pytest_specdec.core.spec_check import speculative_problems
from pytest_specdec.core.vllm_versions import EVERY
from pytest_specdec.core.workload_options import is_on_hub

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.config_form import ConfigForm
    from pytest_specdec.core.vllm_versions import Versions

__all__ = [
    "Devices",
    "LoadPoint",
    "MeasureSettings",
    "SpecConfig",
    "WorkloadEntry",
    "config_json_schema",
    "load_configs",
]


class SpecConfig(BaseModel):
    """One config file, resolved; ``load_configs`` makes them.

    Model values are as vLLM will get them, for a server that runs in ``folder``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """The file's stem, made unique among the configs of a run; part of test ids."""
    path: Path
    """Absolute."""
    model: str
    """The target."""
    speculative_config: dict[str, Any]
    serve: dict[str, Any] | list[str] = {}
    serve_specdec: dict[str, Any] | list[str] = {}
    command: tuple[str, ...] | None = None
    env: dict[str, str] = {}
    placement: Placement = "auto"
    workloads: dict[str, WorkloadEntry] = {}
    """Paths resolved against the config's folder."""
    load: dict[str, LoadPoint] = {}
    measure: MeasureSettings = MeasureSettings()
    devices: Devices | None = None
    stop_command: tuple[str, ...] | None = None
    startup_timeout_s: float = 1800
    places: dict[str, str] = Field(default={}, repr=False, exclude=True)
    """Key path of the envelope to where it stands; see ``where``."""

    @property
    def folder(self) -> Path:
        """Where the servers run, so that relative paths of the config hold."""
        return self.path.parent

    @property
    def method(self) -> str | None:
        """As the config states it, old ``*_mtp`` names as ``mtp``; None where vLLM is left to guess."""
        method = self.speculative_config.get("method")
        if not isinstance(method, str):
            return None
        return "mtp" if method.endswith("_mtp") else method

    @property
    def num_speculative_tokens(self) -> int | None:
        """K as the config states it; None where it is left to the method or the draft."""
        value = self.speculative_config.get(
            "num_speculative_tokens", self.speculative_config.get("num-speculative-tokens")
        )
        if isinstance(value, str):
            return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else None
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def where(self, key: str) -> str:
        """``eagle3.yaml:3:5: serve.max_model_len``, for findings about this config."""
        return self.places.get(key, f"{shown_path(self.path)}: {key}")


def load_configs(paths: Sequence[str | Path], *, default_model: str | None) -> tuple[list[SpecConfig], list[Finding]]:
    """Read and check config files, as far as that can be done without knowing which vLLM will run.

    Args:
        paths: Files, or folders of them, in the order in which their ids are given out.
        default_model: The target for files that name none; a relative path counts from the current folder.

    Returns:
        The configs, and warnings and notes about them.

    Raises:
        ConfigError: With every error of every file.
    """
    configs, findings = read_configs(paths, default_model=default_model)
    if errors := [finding for finding in findings if finding.severity == "error"]:
        raise ConfigError(errors)
    return configs, findings


def read_configs(
    paths: Sequence[str | Path],
    *,
    default_model: str | None,
    versions: Versions = EVERY,
    flags: Sequence[str] = (),
) -> tuple[list[SpecConfig], list[Finding]]:
    """Read config files, and say everything about them, errors too.

    Args:
        paths: Files, or folders of them, in the order in which their ids are given out.
        default_model: The target for files that name none; a relative path counts from the current folder.
        versions: The releases of vLLM that they may meet.
        flags: Further words of both servers' command line.

    Returns:
        The configs without an error, and the findings about all of them.
    """
    files, findings = files_behind(paths)
    configs: list[SpecConfig] = []
    seen: dict[str, str] = {}
    for path in files:
        name = shown_path(path)
        file = os.path.realpath(path)
        if file in seen:
            other = "" if seen[file] == name else f" (as {seen[file]})"
            findings.append(Finding("error", name, f"this file is given twice{other}", "Name each config once."))
            continue
        seen[file] = name
        config_id = _unique_id(Path(os.path.abspath(path)), {config.id for config in configs})  # noqa: PTH100 - keeps links
        config, found = _load(path, config_id, default_model, versions, flags)
        findings += found
        configs += [config] if config else []
    findings += _flag_findings(list(flags))
    return configs, list(dict.fromkeys(findings))


def _flag_findings(flags: list[str]) -> Iterator[Finding]:
    """About flags that stand in no file."""
    for problem in serve_problems("serve", flags):
        index = problem.keys[-1]
        where = f"server flags: {flags[index].partition('=')[0]}" if isinstance(index, int) else "server flags"
        yield Finding(problem.severity, where, problem.what, problem.remedy)


def _unique_id(path: Path, taken: set[str]) -> str:
    stem = _id_text(path.stem)
    candidates = [stem, f"{_id_text(path.parent.name)}-{stem}"]
    candidates += [f"{candidates[1]}-{number}" for number in range(2, len(taken) + 3)]
    return next(candidate for candidate in candidates if candidate not in taken)


def _id_text(name: str) -> str:
    """Without what means something in a node id, in ``-k`` or in a path."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "config"


def _load(
    path: str | Path, config_id: str, default_model: str | None, versions: Versions, flags: Sequence[str]
) -> tuple[SpecConfig | None, list[Finding]]:
    try:
        text = read_config_text(path)
    except ConfigError as error:
        return None, error.findings
    form, problems = form_of(text)
    if form is None:
        return None, [Finding(p.severity, text.where(p.keys), p.what, p.remedy) for p in problems]
    file = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links, and leave the author's folder
    envelope, shape = shape_problems(form.data)
    problems = [*rule_problems(form.data), *path_problems(form.data, file.parent)]
    words = [word for key in ("command", "serve") for word in server_words(form.data.get(key), file.parent)]
    problems += speculative_problems(form.data.get("speculative_config"), versions, flags=[*words, *flags])
    reported = {problem.keys for problem in problems}
    problems += [problem for problem in shape if problem.keys not in reported]
    problems.sort(key=lambda p: text.place(form.as_written(p.keys)) or Place(0, 0))
    findings = [Finding(p.severity, form.where(p.keys), p.what, p.remedy) for p in problems]
    model = target_of(form.data.get("model"), default_model, file.parent)
    if isinstance(model, Finding):
        findings.append(model if model.where else Finding(model.severity, text.name, model.what, model.remedy))
    elif isinstance(model, str):
        findings += model_findings(model, form, file.parent)
    if envelope is None or not isinstance(model, str) or any(finding.severity == "error" for finding in findings):
        return None, findings
    return _resolved(config_id, file, model, envelope, form), findings


def _resolved(config_id: str, file: Path, model: str, envelope: Envelope, form: ConfigForm) -> SpecConfig:
    speculative = dict(envelope.speculative_config)
    if isinstance(speculative.get("model"), str):
        speculative["model"] = model_paths.as_argument(speculative["model"])
    return SpecConfig(
        id=config_id,
        path=file,
        model=model,
        speculative_config=speculative,
        serve=envelope.serve,
        serve_specdec=envelope.serve_specdec,
        command=launcher.split_command(envelope.command) if envelope.command is not None else None,
        env={name: str(value) for name, value in envelope.env.items()},
        placement=envelope.placement,
        workloads={
            name: entry
            if is_on_hub(entry.path)
            else entry.model_copy(update={"path": file.parent / model_paths.as_argument(str(entry.path))})
            for name, entry in envelope.workloads.items()
        },
        load=envelope.load,
        measure=envelope.measure,
        devices=envelope.devices,
        stop_command=launcher.split_command(envelope.stop_command) if envelope.stop_command is not None else None,
        startup_timeout_s=envelope.startup_timeout_s,
        places=_places(form),
    )


def _places(form: ConfigForm) -> dict[str, str]:
    places = {}
    for written in form.text.places:
        keys = ("speculative_config", *written) if form.bare else written
        if not form.bare and written[:1] == ("speculative-config",):
            keys = ("speculative_config", *written[1:])
        places[key_path(keys)] = form.text.where(written)
    return places
