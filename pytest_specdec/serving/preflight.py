"""Before any launch: a config against the vLLM that it would start, against the models in its folders, and the environment.

What core judges is read here: versions, ``config.json`` files, environment variables.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import launcher
from pytest_specdec.core.config_paths import server_words
from pytest_specdec.core.draft_rules import Pair, pair_problems
from pytest_specdec.core.errors import ConfigError, Finding, LaunchError
from pytest_specdec.core.k_choice import SCHEDULE_KEY
from pytest_specdec.core.model_paths import located, near_path
from pytest_specdec.core.places import key_path
from pytest_specdec.core.schedule_graphs import PIECES, cannot_capture
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.server_flags import SINCE, compact_json, options_in, words_of
from pytest_specdec.core.spec_check import new_problems, speculative_problems
from pytest_specdec.core.vllm_versions import ANY, EVERY, NEWEST, OLDEST, Versions, exactly
from pytest_specdec.serving.command import UNSET, command_of, no_serve
from pytest_specdec.serving.installed_flags import unknown_flags
from pytest_specdec.serving.installed_keys import refused_keys
from pytest_specdec.serving.model_files import damaged_weights, loads_files, missing_weights
from pytest_specdec.serving.model_folder import read_model
from pytest_specdec.serving.versions import version_of
from pytest_specdec.serving.weights import found_locally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

_LOOPBACK = {"127.0.0.1", "localhost", "*"}


def folder_findings(config: SpecConfig, *, flags: Sequence[str] = (), versions: Versions = EVERY) -> list[Finding]:
    """What the models in local folders say about themselves, and what the environment does to a measurement.

    Args:
        config: Whose draft and target are looked at.
        flags: Further words of both servers' command line.
        versions: The releases that it may meet.
    """
    problems = [*_pair(config, flags, versions), *_unreachable(config, os.environ), *_weights(config, flags)]
    return [*(_finding(config, problem) for problem in problems), *_environment(config, os.environ)]


def _unreachable(config: SpecConfig, inherited: Mapping[str, str]) -> Iterator[Problem]:
    """A command that is not there, and models that would have to come from a hub that must not be asked."""
    if config.command and "PATH" not in config.env and "{" not in config.command[0]:
        program = config.command[0]
        if shutil.which(str(config.folder / program) if "/" in program else program) is None:
            where = "there is no such program" if "/" in program else "is not on the PATH"
            yield Problem(("command",), f'"{program}": {where}', "Correct it, or install it.")
    if fault := no_serve(config):
        yield Problem(("serve",), *fault)
    offline = _either("HF_HUB_OFFLINE", config.env, inherited).lower() in ("1", "true", "yes", "on")
    env = {**inherited, **config.env}
    draft = config.speculative_config.get("model")
    for keys, model in ((("model",), config.model), (("speculative_config", "model"), draft)):
        if isinstance(model, str) and "/" in model and found_locally(model, config.folder, env) is None:
            near = near_path(model, config.folder)
            if not offline and near is None:
                continue
            what = f'"{model}" is no folder seen from the config, nor in the cache of the hub'
            what += ", and HF_HUB_OFFLINE forbids to ask for it" if offline else ""
            remedy = "Correct the path, or download the model beforehand."
            yield Problem(keys, what, f"Did you mean {near}?" if near else remedy, "warning")


def _weights(config: SpecConfig, flags: Sequence[str]) -> Iterator[Problem]:
    """Weights that vLLM cannot load; a warning where another program than vLLM may be started."""
    if not loads_files(_words(config, flags)):
        return
    severity = "error" if config.command is None else "warning"
    draft = config.speculative_config.get("model")
    for keys, model in ((("model",), config.model), (("speculative_config", "model"), draft)):
        folder = located(model, config.folder) if isinstance(model, str) else None
        if folder is None or not folder.is_dir():
            continue
        if missing_weights(folder):
            what = f"there is no file of weights in {folder.resolve()}"
            yield Problem(keys, what, "Download the model whole, or correct the path.", severity)
        for name, fault, remedy in damaged_weights(folder):
            yield Problem(keys, f"{folder.resolve() / name} {fault}", remedy, severity)


def checked_configs(
    paths: Sequence[str | Path], *, default_model: str | None, elsewhere: bool = False
) -> tuple[list[SpecConfig], list[Finding]]:
    """Read configs, and look at what lies in their folders: all that can be told before it is known which vLLM will run.

    Args:
        paths: The files.
        default_model: The target for files that name none.
        elsewhere: The servers run on other machines: what is, or is not, on this one says nothing.

    Raises:
        ConfigError: With every error.
    """
    from pytest_specdec.core.config import load_configs

    configs, findings = load_configs(paths, default_model=default_model)
    here = () if elsewhere else configs
    findings = list(dict.fromkeys([*findings, *(found for config in here for found in folder_findings(config))]))
    if errors := [finding for finding in findings if finding.severity == "error"]:
        raise ConfigError(errors)
    return configs, findings


def version_findings(config: SpecConfig, version: str | None, *, flags: Sequence[str] = ()) -> list[Finding]:
    """What holds for one version of vLLM, and was not said without it.

    Args:
        config: A config that has no errors yet.
        version: Of the vLLM behind the config's command, as it names it; None where it cannot be known: then what may be wrong is a
            warning, and nobody can be asked for flags.
        flags: Further words of both servers' command line.
    """
    versions = (exactly(version) if version else None) or ANY
    words = _words(config, flags)
    speculative = config.speculative_config
    before = [*speculative_problems(speculative, EVERY, flags=words), *_pair(config, flags, EVERY)]
    now = [*speculative_problems(speculative, versions, flags=words), *_pair(config, flags, versions)]
    found = [_finding(config, problem) for problem in new_problems(now, before)]
    found += [*age_findings(versions, config.where("command")), *flag_findings(config, versions, flags)]
    found += _schedule_findings(config, version, flags)
    return [*found, *unknown_flags(config, version, flags)] if version else found


def launch_findings(config: SpecConfig, version: str | None) -> list[Finding]:
    """As :func:`version_findings`, and what may be no error before a server is to be started with it: keys that are certain to be refused."""
    found = version_findings(config, version)
    told = {finding.where for finding in found if finding.severity == "error"}
    return [*found, *(one for one in key_findings(config, version, "error") if one.where not in told)]


def key_findings(config: SpecConfig, version: str | None, severity: str) -> list[Finding]:
    """Keys that the speculative config of the installed vLLM does not take.

    Args:
        config: A config that has no errors yet.
        version: Of the vLLM behind the config's command; None: it is not installed here.
        severity: What such a key is.
    """
    problems = refused_keys(config, version) if version else ()
    return [_finding(config, replace(problem, severity=severity)) for problem in problems]


def version_behind(config: SpecConfig) -> str | None:
    """The version of the vLLM that a config starts; None where only the running server could tell, or where there is none."""
    try:
        return version_of(command_of(config))
    except LaunchError:
        return None


def age_findings(versions: Versions, where: str) -> Iterator[Finding]:
    """Whether a version is outside of what is supported and known; ``where`` is what chose it."""
    if not versions.one:
        return
    if versions.beyond:
        what = f"{versions.name} is newer than the tables of this plugin, which end at {NEWEST}"
        yield Finding("warning", where, what, "What it added is reported as unknown, and passed on.")
    elif versions.oldest < EVERY.oldest:
        what = f"{versions.name} is older than {OLDEST[:-2]}, the oldest that this plugin supports"
        yield Finding("warning", where, what, "Use a newer vLLM.")


def flag_findings(config: SpecConfig, versions: Versions, flags: Sequence[str] = ()) -> Iterator[Finding]:
    """Flags about speculation that a version does not have."""
    there = options_in([*_words(config, flags), *words_of(config.serve_specdec)])
    for option, since in SINCE.items():
        standing = versions.standing(since, None)
        if option not in there or standing == "known":
            continue
        what = f"--{option} is known since vLLM {since}"
        if standing == "too early":
            yield Finding("error", config.where("serve_specdec"), f"{what}, and {versions.name} exits", "Remove it.")
        elif versions.ifs:
            yield Finding("warning", config.where("serve_specdec"), f"{what}, and is refused if vLLM is older")


def schedule_fault(config: SpecConfig, schedule: Any, *, version: str | None = None, flags: Sequence[str] = ()) -> str:
    """Why vLLM would not start with a schedule of K; empty where it would, as far as is known.

    Args:
        config: Whose speculating server is meant.
        schedule: Entries of first batch size, last batch size, K.
        version: Of vLLM; None: the one behind the config's command.
        flags: Further words of both servers' command line.
    """
    words = [*_words(config, flags), *words_of(config.serve_specdec)]
    env = {**os.environ, **config.env}
    return cannot_capture(config.method, version or version_behind(config), schedule, flags=words, env=env)


def _schedule_findings(config: SpecConfig, version: str | None, flags: Sequence[str]) -> Iterator[Finding]:
    schedule = config.speculative_config.get(SCHEDULE_KEY)
    if version and schedule and (fault := schedule_fault(config, schedule, version=version, flags=flags)):
        remedy = f"On a GPU add to `serve_specdec`: {compact_json(PIECES)}, or take vLLM >= 0.32."
        yield Finding("warning", config.where(f"speculative_config.{SCHEDULE_KEY}"), fault, remedy)


def _pair(config: SpecConfig, flags: Sequence[str], versions: Versions) -> list[Problem]:
    draft = config.speculative_config.get("model")
    return list(
        pair_problems(
            Pair(
                config=config.speculative_config,
                k=config.num_speculative_tokens,
                target=read_model(config.model, config.folder),
                draft=read_model(draft, config.folder) if isinstance(draft, str) else None,
                flags=_words(config, flags),
                versions=versions,
            )
        )
    )


def _words(config: SpecConfig, flags: Sequence[str]) -> tuple[str, ...]:
    """All words of both servers' command line."""
    return (*server_words(config.command, config.folder), *server_words(config.serve, config.folder), *flags)


def _environment(config: SpecConfig, inherited: Mapping[str, str]) -> Iterator[Finding]:
    """Inherited variables; those of the config's own ``env`` are judged with the file."""
    for name in UNSET:
        if name in inherited:
            what = f"{name} is set and makes two servers collide, so the plugin unsets it for them"
            yield Finding("note", "environment", what)
    name = "VLLM_ENABLE_V1_MULTIPROCESSING"
    if inherited.get(name) == "0" and name not in config.env:
        yield Finding("warning", "environment", f"{name} is 0, which keeps vLLM from drafting at all", "Unset it.")
    proxies = [name for name in ("http_proxy", "https_proxy", "all_proxy") if _either(name, config.env, inherited)]
    direct = {host.strip() for host in _either("no_proxy", config.env, inherited).split(",")}
    if proxies and not direct & _LOOPBACK:
        if launcher.starts_container(config.command or ()):
            what = f"{', '.join(proxies)} without a no_proxy for 127.0.0.1: what is in the container may talk to itself through it"
            yield Finding("warning", "environment", what, "Add 127.0.0.1,localhost to no_proxy in the container.")
        else:
            what = f"{', '.join(proxies)} without a no_proxy for 127.0.0.1: the plugin adds it for the servers"
            yield Finding("note", "environment", what)


def _either(name: str, own: Mapping[str, str], inherited: Mapping[str, str]) -> str:
    spellings = (name, name.upper())
    return next((source[key] for source in (own, inherited) for key in spellings if source.get(key)), "")


def _finding(config: SpecConfig, problem: Problem) -> Finding:
    keys = problem.keys
    while len(keys) > 1 and key_path(keys) not in config.places:
        keys = keys[:-1]
    return Finding(problem.severity, config.where(key_path(keys)), problem.what, problem.remedy)
