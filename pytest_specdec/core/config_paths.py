"""Paths in a config: models, workloads, and files of further flags, looked for in the config's folder.

What is found there is looked into as far as it can make the baseline speculate.
"""

from __future__ import annotations

import os
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import model_paths
from pytest_specdec.core.config_text import read_config_text
from pytest_specdec.core.errors import ConfigError, Finding
from pytest_specdec.core.serve_rules import Problem, spoiling_values, spoils
from pytest_specdec.core.server_flags import flag_of, option_of, words_of
from pytest_specdec.core.workload_options import is_on_hub

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specdec.core.config_form import ConfigForm

_OPTION = "--specdec-model or specdec_model"


def target_of(given: Any, default: str | None, folder: Path) -> str | Finding | None:
    """The target's argument; a finding where there is none; None where ``given`` is no text, which the shape reports."""
    if isinstance(given, str):
        return model_paths.as_argument(given)
    if given is not None:
        return None
    if default is None:
        remedy = "Name it with --specdec-model, with the ini option specdec_model, or as `model` of an envelope."
        return Finding("error", "", "nothing says which model is the target", remedy)
    here = Path.cwd()
    if model_paths.is_path(default) and model_paths.located(default, here) is None:
        return Finding(
            "error",
            _OPTION,
            f"there is no model at {os.path.normpath(here / model_paths.as_argument(default))}{_meant(default, here)}",
        )
    return model_paths.carried_over(default, here, folder)


def path_problems(data: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    """Paths of the file that lead nowhere, and flag files that hold flags which ``serve`` may not hold."""
    speculative = data.get("speculative_config")
    draft = speculative.get("model") if isinstance(speculative, dict) else None
    for keys, model in ((("model",), data.get("model")), (("speculative_config", "model"), draft)):
        if not isinstance(model, str):
            continue
        if model.startswith("-") or (model and not model.strip()):
            yield Problem(keys, f'"{model}" is not a model')
        elif model_paths.is_path(model) and model_paths.located(model, folder) is None:
            what = f"there is no model at {os.path.normpath(folder / model_paths.as_argument(model))}"
            yield Problem(keys, what + _meant(model, folder))
    workloads = data.get("workloads")
    for name, entry in workloads.items() if isinstance(workloads, dict) else ():
        path = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(path, str) and not is_on_hub(path) and not (folder / model_paths.as_argument(path)).exists():
            yield Problem(
                ("workloads", name, "path"),
                f"there is no file {os.path.normpath(folder / model_paths.as_argument(path))}{_meant(path, folder)}",
            )
    for key in ("serve", "serve_specdec", "command"):
        for file in _flag_files(data.get(key)):
            yield from _flag_file_problems(key, file, folder)


def _meant(path: str, folder: Path) -> str:
    near = model_paths.near_path(path, folder)
    return f"; did you mean {near}?" if near else ""


def server_words(flags: Any, folder: Path) -> tuple[str, ...]:
    """Words of a command line from ``serve`` or ``command``, with what stands in the files behind ``--config``.

    Such a file comes first, because vLLM lets the command line win over it. What cannot become words is left to the rules.
    """
    words: tuple[str, ...] = ()
    for file in _flag_files(flags):
        try:
            data = read_config_text(folder / file).data
        except ConfigError:
            continue
        words += words_of(data) if isinstance(data, dict) else ()
    if isinstance(flags, dict):
        return (*words, *words_of(flags))
    return (*words, *(word for word in flags if isinstance(word, str))) if isinstance(flags, list | tuple) else words


def _flag_files(serve: Any) -> Iterator[str]:
    """Files behind ``--config``, from which vLLM reads more flags."""
    if isinstance(serve, dict):
        yield from (
            value for name, value in serve.items() if option_of(flag_of(name)) == "config" and isinstance(value, str)
        )
    elif isinstance(serve, list | tuple):
        for word, after in zip_longest(serve, serve[1:]):
            value = word.partition("=")[2] or after if isinstance(word, str) and option_of(word) == "config" else None
            # Other launchers have a --config of their own; vLLM takes YAML only.
            if isinstance(value, str) and value.endswith((".yaml", ".yml")):
                yield value


def _flag_file_problems(key: str, file: str, folder: Path) -> Iterator[Problem]:
    try:
        flags = read_config_text(folder / file)
    except ConfigError as error:
        yield Problem((key,), f"names a file of flags that cannot be checked: {error.findings[0]}")
        return
    for name in flags.data if isinstance(flags.data, dict) else ():
        word = f"--{name}" if flags.data[name] is not False else f"--no-{name}"
        if fault := spoils(word, both=key != "serve_specdec"):
            yield Problem((key,), f"names a file of flags, and in it {flags.where((name,))} {fault[0]}", fault[1])
    for fault in (
        spoiling_values(words_of(flags.data), both=key != "serve_specdec") if isinstance(flags.data, dict) else ()
    ):
        yield Problem((key,), f"names a file of flags, and {flags.name} {fault[0]}", fault[1])


def model_findings(model: str, form: ConfigForm, folder: Path) -> Iterator[Finding]:
    """What the target and the draft, as vLLM will get them, give away about themselves."""
    target = model_paths.located(model, folder)
    if target is not None and model_paths.is_speculators_checkpoint(target):
        what = f"the target {model} is a speculators checkpoint, with which vLLM speculates unasked: the baseline would too"
        remedy = "Name the plain model as the target, and this checkpoint as `model` of the speculative config."
        yield Finding("error", form.where(("model",)) if "model" in form.data else _OPTION, what, remedy)
    speculative = form.data.get("speculative_config")
    if not isinstance(speculative, dict) or not isinstance(speculative.get("method"), str):
        return
    draft = speculative.get("model", model if speculative["method"].endswith("mtp") else None)
    method = "mtp" if speculative["method"].endswith("_mtp") else speculative["method"]
    if isinstance(draft, str) and (why := model_paths.misleading_word(method, model_paths.as_argument(draft))):
        keys = ("speculative_config", "model") if "model" in speculative else ("speculative_config", "method")
        yield Finding(
            "warning", form.where(keys), f"{draft} {why}", "A path relative to the config's folder can avoid the word."
        )
