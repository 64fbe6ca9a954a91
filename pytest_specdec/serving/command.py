"""From a config to the command line and environment of one server.

Both arms get the same words in the same order; the speculating one has ``serve_specdec`` and ``--speculative-config`` on top.
What the plugin sets without being asked is listed under ``changes``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_specdec.core import launcher, model_paths
from pytest_specdec.core.errors import LaunchError
from pytest_specdec.core.masking import masked_argv, masked_env
from pytest_specdec.core.server_flags import API_SERVERS, compact_json, grouped, option_of, options_in, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import Arm

__all__ = [
    "LaunchPlan",
    "baseline_key",
    "command_of",
    "has_flag",
    "masked_argv",
    "masked_env",
    "no_serve",
    "plan_launch",
]

HOST = "127.0.0.1"
_CLI_MODULE = "vllm.entrypoints.cli.main"
"""What the ``vllm`` script runs."""
UNSET = ("VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR", "VLLM_API_KEY")
"""Two servers that inherit one of these collide: in their internal ports, or in their counters."""
_LOOPBACK = (HOST, "localhost")


@dataclass(frozen=True)
class LaunchPlan:
    """All that is needed to start one server."""

    arm: Arm
    argv: tuple[str, ...]
    env: dict[str, str]
    """Added to, and winning over, what the process inherits."""
    unset_env: tuple[str, ...]
    model: str
    served_name: str
    port: int
    host: str
    cwd: Path
    """The config's folder, so that relative paths in the config hold."""
    changes: tuple[str, ...]
    """What the plugin set beyond the config, in words; secrets masked."""
    stop_command: tuple[str, ...] | None = None
    method: str | None = None
    """Of speculation, as the config states it; None on the baseline."""


def plan_launch(
    config: SpecConfig,
    arm: Arm,
    *,
    port: int,
    served_name: str,
    extra_flags: Sequence[str] = (),
    extra_env: Mapping[str, str] = MappingProxyType({}),
) -> LaunchPlan:
    """Plan one server.

    Args:
        config: What to start.
        arm: With or without speculation.
        port: On the loopback interface.
        served_name: The model name that this server, and no other, answers to.
        extra_flags: Words the plugin wants on both sides; an option that the config sets is left to the config.
        extra_env: Variables the plugin wants on both sides; the config's own win.

    Raises:
        LaunchError: The config names no command and vLLM is not installed here, or ``devices`` names one that is not shown.
    """
    command = tuple(_filled(word, port, served_name) for word in command_of(config))
    model = (config.model,) if launcher.takes_model_as_word(command) else ("--model", config.model)
    added = [group for group in grouped(extra_flags) if not has_flag(config, group[0])]
    both = tuple(word for group in added for word in group)
    own = words_of(config.serve_specdec)
    speculation = (*own, "--speculative-config", compact_json(config.speculative_config))
    address = ("--host", HOST, "--port", str(port), "--served-model-name", served_name)
    devices = _device_env(config, arm)
    wanted_env = {name: value for name, value in extra_env.items() if name not in config.env}
    changes = [" ".join(masked_argv(group)) for group in added]
    changes += [f"{name}={value}" for name, value in masked_env(wanted_env).items()]
    changes += [f"{name}={value}" for name, value in devices.items()]
    changes += [f"{name} unset" for name in UNSET if name in os.environ]
    changes += [f"on the speculating side only: {' '.join(masked_argv(group))}" for group in grouped(own)]
    stop = config.stop_command
    return LaunchPlan(
        arm=arm,
        argv=(*command, *model, *words_of(config.serve), *both, *(speculation if arm == "specdec" else ()), *address),
        env=_module_env(config) | wanted_env | config.env | _proxy_env(config.env) | devices,
        unset_env=UNSET,
        model=config.model,
        served_name=served_name,
        port=port,
        host=HOST,
        cwd=config.folder,
        changes=tuple(changes),
        stop_command=tuple(_filled(word, port, served_name) for word in stop) if stop else None,
        method=config.method if arm == "specdec" else None,
    )


def command_of(config: SpecConfig) -> tuple[str, ...]:
    """The words that start vLLM, without model and flags.

    Raises:
        LaunchError: The config names none, and vLLM is not installed in this interpreter, or not as the config wants it.
    """
    if config.command is not None:
        return config.command
    command = _default_command()
    if launcher.takes_model_as_word(command) or not has_flag(config, f"--{API_SERVERS}"):
        return command  # `vllm serve` already, where the module is gone
    if fault := no_serve(config):
        raise LaunchError(fault[0], where=config.where("serve"), remedy=fault[1])
    return (sys.executable, "-m", _CLI_MODULE, "serve")


def no_serve(config: SpecConfig) -> tuple[str, str] | None:
    """Why a config cannot have the API servers that it asks for, and what to do; None where it can, or asks for none.

    ``vllm serve`` asks for its own version, as the distribution ``vllm``, before anything else.
    """
    if config.command is not None or not has_flag(config, f"--{API_SERVERS}") or _vllm_package() is None:
        return None
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        what = "needs `vllm serve`, which does not start here: the vLLM that is installed is not the distribution named vllm"
        return (
            f"api_server_count {what}",
            "Leave it out, or name a command that knows it, such as [/opt/vllm/bin/vllm, serve].",
        )
    return None


def has_flag(config: SpecConfig, flag: str, *, arm: Arm | None = None) -> bool:
    """Whether the config itself sets an option, in any spelling: ``--x``, ``--x=``, ``--no-x``, underscores, short names.

    Args:
        config: Looked at are ``command``, ``serve`` and ``serve_specdec``.
        flag: Such as ``--gpu-memory-utilization``.
        arm: Look at this server only; default: a flag that one of them has counts.
    """
    words = [*(config.command or ()), *words_of(config.serve)]
    if arm != "baseline":
        words += words_of(config.serve_specdec)
    return option_of(flag) in options_in(words)


def baseline_key(config: SpecConfig) -> str:
    """Equal for configs whose server without speculation is the same one, so that they can share it.

    It depends on model, ``serve``, ``command``, ``env``, the baseline's devices and the placement. A value that is a relative
    path in the config's folder counts as the place where it leads.
    """
    parts = {
        "model": config.model,
        "serve": config.serve,
        "command": config.command,
        "env": config.env,
        "devices": config.devices.baseline if config.devices else None,
        "placement": config.placement,
    }
    return hashlib.sha256(compact_json(_seen_from(config.folder, parts)).encode()).hexdigest()


def _seen_from(folder: Path, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _seen_from(folder, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_seen_from(folder, inner) for inner in value]
    found = model_paths.located(value, folder) if isinstance(value, str) and value else None
    return os.path.realpath(found) if found else value


def _default_command() -> tuple[str, ...]:
    package = _vllm_package()
    if package is None:
        raise LaunchError(
            "vLLM is not installed in this interpreter",
            where=sys.executable,
            remedy="pip install 'pytest-specdec[vllm]', or name where it is: `command` in the config, such as [/opt/vllm/bin/vllm, serve].",
        )
    if package.joinpath(*launcher.SERVER_MODULE.split(".")[1:]).with_suffix(".py").is_file():
        return (sys.executable, "-m", launcher.SERVER_MODULE)
    beside = shutil.which("vllm", path=str(Path(sys.executable).parent))
    return (beside or "vllm", "serve")


def _vllm_package() -> Path | None:
    """The folder of the installed package, found without importing it: that would cost seconds and may touch the GPU."""
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        return None
    # Without an origin it is only some folder of that name.
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _filled(word: str, port: int, served_name: str) -> str:
    """``{port}`` and ``{name}`` let a container have a name of its own; other braces are JSON and stay."""
    return word.replace("{port}", str(port)).replace("{name}", served_name)


def _module_env(config: SpecConfig) -> dict[str, str]:
    """``python -m`` would import from the config's folder first, where a ``types.py`` or a ``vllm`` folder may lie."""
    return {"PYTHONSAFEPATH": "1"} if config.command is None and "PYTHONSAFEPATH" not in os.environ else {}


def _proxy_env(own: Mapping[str, str]) -> dict[str, str]:
    """What keeps the server's own processes from talking to each other through a proxy."""
    names = ("no_proxy", "NO_PROXY")
    given = next((source[name] for source in (own, os.environ) for name in names if source.get(name)), "")
    hosts = [host.strip() for host in given.split(",") if host.strip()]
    return dict.fromkeys(names, ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)]))


def _device_env(config: SpecConfig, arm: Arm) -> dict[str, str]:
    """Devices count among those that this process may use, as CUDA's own numbers do."""
    if config.devices is None:
        return {}
    wanted: tuple[int, ...] = getattr(config.devices, arm)
    given = config.env.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if given is None:
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, wanted))}
    visible = [device.strip() for device in given.split(",") if device.strip()]
    if max(wanted) >= len(visible):
        raise LaunchError(
            f"device {max(wanted)} is not there: CUDA_VISIBLE_DEVICES={given} shows {len(visible)}, counted from 0",
            where=config.where(f"devices.{arm}"),
            remedy="Name devices by their place in CUDA_VISIBLE_DEVICES, or unset it.",
        )
    return {"CUDA_VISIBLE_DEVICES": ",".join(visible[index] for index in wanted)}
