"""What the user asked for, resolved from command line, ini file and defaults, in this order.

A value keeps the name of its source, so that an error about it can say where it was given.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import urlsplit

import pytest

from pytest_specdec.core.foreign_traffic import ALLOWANCE
from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.procedure import Procedure, read_procedure
from pytest_specdec.core.samples import ARMS
from pytest_specdec.options import MEASURE_INI, NEED_CONFIG, PURPOSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm

Unsure = Literal["fail", "pass"]


@dataclass(frozen=True)
class Options:
    """What the user asked for, resolved; paths are absolute."""

    configs: tuple[Path, ...]
    configs_from: str
    """``--specdec-config`` or ``specdec_config in FILE``, for errors."""
    model: str | None
    directory: Path
    workloads: dict[str, Path]
    require: bool
    unsure: Unsure
    allow: tuple[str, ...]
    measure: dict[str, float]
    """``rounds``, ``max_rounds``, ``budget_s``, ``confidence`` where the ini file sets them."""
    tune: bool
    plan: bool
    self_test: bool
    dynamic: bool = False
    replace: bool = False
    """Config files that the run writes may replace others."""
    procedure: Procedure = field(default_factory=Procedure)
    """Thresholds of the advice, and what the acceptance procedure measures."""
    keep_outputs: bool = False
    """Whether prompts and answers may be written and shown."""
    attached: Attached | None = None
    keep: bool = False
    """Servers stay up at the end."""


@dataclass(frozen=True)
class Attached:
    """Servers that something else started."""

    urls: dict[Arm, str]
    headers: dict[str, str] = field(repr=False)


def read_options(config: pytest.Config) -> Options:
    """Resolve command line, ini file and defaults.

    Raises:
        pytest.UsageError: An ini value cannot be understood.
    """
    home = config.inipath.parent if config.inipath else config.rootpath
    here = config.invocation_params.dir
    given = cast("list[str] | None", config.getoption("specdec_config"))
    if given:
        configs = tuple(here / path for path in given)
        configs_from = "--specdec-config"
    else:
        configs = tuple(home / path for path in config.getini("specdec_config"))
        configs_from = f"specdec_config in {config.inipath.name if config.inipath else 'the ini file'}"
    _refuse_what_would_be_left_out(config, configs)
    directory = config.getoption("specdec_dir")
    ini_directory = config.getini("specdec_dir") or ".specdec"
    require = config.getoption("specdec_require")
    return Options(
        configs=configs,
        configs_from=configs_from,
        model=config.getoption("specdec_model") or _ini_model(config, home),
        directory=here / directory if directory else config.rootpath / ini_directory,
        workloads=_workload_paths(config.getini("specdec_workloads"), home),
        require=bool(config.getini("specdec_require") if require is None else require),
        unsure=_unsure(config),
        allow=tuple(config.getoption("specdec_allow") or ()),
        measure=_measure_settings(config),
        tune=bool(config.getoption("specdec_tune")),
        plan=bool(config.getoption("specdec_plan")),
        self_test=bool(config.getoption("specdec_self_test")),
        dynamic=bool(config.getoption("specdec_dynamic")),
        replace=bool(config.getoption("specdec_replace")),
        procedure=_procedure(config),
        keep_outputs=bool(config.getoption("specdec_keep_outputs")),
        attached=_attached(config),
        keep=bool(config.getoption("specdec_keep")),
    )


def _refuse_what_would_be_left_out(config: pytest.Config, configs: Sequence[Path]) -> None:
    """What cannot be done for want of a config, and the second of two purposes: else the run is green without it."""
    needing = [_spelt(name) for name in NEED_CONFIG if config.getoption(name)]
    if needing and not configs:
        raise pytest.UsageError(
            f"{needing[0]} needs a config: give --specdec-config=FILE, or set specdec_config in the ini file"
        )
    first, *others = [_spelt(name) for name in PURPOSES if config.getoption(name)] or [""]
    if others:
        raise pytest.UsageError(f"{first} and {others[0]} are runs of their own: give one of them")
    if config.getoption("specdec_replace") and not config.getoption("specdec_dynamic"):
        raise pytest.UsageError("--specdec-replace lets --specdec-dynamic replace a config, and that is not given")


def _spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def refuse_foreign_traffic(options: Options, configs: Iterable[SpecConfig]) -> None:
    """Servers that the run launches have no other users.

    Raises:
        pytest.UsageError: They would be measured as if they had.
    """
    if options.attached is not None:
        return
    told = [f"{config.path.name}: measure: allow" for config in configs if ALLOWANCE in config.measure.allow]
    for where in [*(["--specdec-allow"] if ALLOWANCE in options.allow else []), *told]:
        raise pytest.UsageError(
            f"{where}: {ALLOWANCE} is for servers that run already (--specdec-attach); those that this run starts serve nobody else"
        )


def _attached(config: pytest.Config) -> Attached | None:
    given = cast("str | None", config.getoption("specdec_attach"))
    if given is None:
        return None
    urls = [url.strip() for url in given.split(",")]
    parts = [urlsplit(url) for url in urls]
    if len(urls) != len(ARMS) or any(part.scheme not in ("http", "https") or not part.hostname for part in parts):
        raise pytest.UsageError(
            f"--specdec-attach={masked_text(given)}: give two addresses, http://HOST:PORT of the baseline, a comma, and that of the speculating server"
        )
    if len({(part.hostname, part.port, part.path.rstrip("/"), part.fragment) for part in parts}) == 1:
        raise pytest.UsageError(
            "--specdec-attach: both addresses are the same server; it cannot be compared with itself"
        )
    if any(part.username or part.password for part in parts):
        raise pytest.UsageError(
            "--specdec-attach: addresses are written into reports, so they must not hold a password; set SPECDEC_API_KEY or SPECDEC_HEADERS"
        )
    for option in ("specdec_self_test", "specdec_tune", "specdec_dynamic", "specdec_keep"):
        if config.getoption(option):
            raise pytest.UsageError(f"--specdec-attach: {_spelt(option)} is for servers that the run starts itself")
    return Attached(dict(zip(ARMS, urls, strict=True)), _headers())


def _headers() -> dict[str, str]:
    """From ``SPECDEC_API_KEY`` and ``SPECDEC_HEADERS``, a JSON object."""
    text = os.environ.get("SPECDEC_HEADERS", "{}")
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(
        isinstance(value, str) and value.isprintable() for value in given.values()
    ):
        raise pytest.UsageError('SPECDEC_HEADERS is no JSON object of strings, such as {"X-Tenant": "ci"}')
    key = os.environ.get("SPECDEC_API_KEY")
    return given | ({"Authorization": f"Bearer {key}"} if key else {})


def _procedure(config: pytest.Config) -> Procedure:
    """The ini file's settings under those of the command line."""
    procedure, findings = read_procedure(
        [*config.getini("specdec_acceptance"), *(config.getoption("specdec_acceptance") or ())],
        source="--specdec-acceptance",
    )
    if findings:
        raise pytest.UsageError("\n".join(map(str, findings)))
    return procedure


def _ini_model(config: pytest.Config, home: Path) -> str | None:
    """A folder beside the ini file as a path; everything else as it stands, such as a hub id."""
    model: str = config.getini("specdec_model")
    return str(home / model) if model and (home / model).is_dir() else model or None


def _workload_paths(lines: list[str], home: Path) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for line in lines:
        name, separator, path = (part.strip() for part in line.partition("="))
        if not (name and separator and path):
            raise pytest.UsageError(f"ini option specdec_workloads: {line!r} is not NAME = PATH")
        paths[name] = home / path
    return paths


def _unsure(config: pytest.Config) -> Unsure:
    value = config.getoption("specdec_unsure") or config.getini("specdec_unsure") or "fail"
    if value not in ("fail", "pass"):
        raise pytest.UsageError(f"ini option specdec_unsure: {value!r} is neither fail nor pass")
    return cast("Unsure", value)


def _measure_settings(config: pytest.Config) -> dict[str, float]:
    settings: dict[str, float] = {}
    for name in MEASURE_INI:
        text = config.getini(name)
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        key = name.removeprefix("specdec_")
        whole = key in ("rounds", "max_rounds")
        if not math.isfinite(value) or value <= 0 or (whole and value != int(value)):
            kind = "a whole number above 0" if whole else "a number above 0"
            raise pytest.UsageError(f"ini option {name}: {text!r} is not {kind}")
        settings[key] = int(value) if whole else value
    if settings.get("confidence", 0.5) >= 1:
        raise pytest.UsageError("ini option specdec_confidence: must be below 1; 0.95 means 95 %")
    return settings
