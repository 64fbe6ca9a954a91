from __future__ import annotations

import importlib.machinery
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.config import Devices, SpecConfig
from pytest_specdec.core.errors import LaunchError
from pytest_specdec.serving.command import (
    LaunchPlan,
    baseline_key,
    command_of,
    has_flag,
    masked_argv,
    masked_env,
    plan_launch,
)

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm

SPECULATIVE = {"num_speculative_tokens": 4, "method": "ngram"}
VLLM = ("vllm", "serve")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CUDA_VISIBLE_DEVICES",
        "VLLM_PORT",
        "PROMETHEUS_MULTIPROC_DIR",
        "VLLM_API_KEY",
        "no_proxy",
        "NO_PROXY",
        "PYTHONSAFEPATH",
    ):
        monkeypatch.delenv(name, raising=False)


def config(**fields: Any) -> SpecConfig:
    given = {
        "id": "c",
        "path": Path("/configs/c.yaml"),
        "model": "org/m",
        "speculative_config": SPECULATIVE,
        "command": VLLM,
    }
    return SpecConfig(**{**given, **fields})


def plan(
    arm: Arm = "baseline", /, *, flags: tuple[str, ...] = (), extra_env: dict[str, str] | None = None, **fields: Any
) -> LaunchPlan:
    return plan_launch(
        config(**fields), arm, port=8123, served_name="specdec-1", extra_flags=flags, extra_env=extra_env or {}
    )


def install_vllm(
    monkeypatch: pytest.MonkeyPatch, folder: Path | None, *, module: bool = True, package: bool = True
) -> None:
    """Let the interpreter find a ``vllm`` that would raise if it were imported."""
    spec = None
    if folder is not None:
        (folder / "vllm" / "entrypoints" / "openai").mkdir(parents=True)
        (folder / "vllm" / "__init__.py").write_text("raise RuntimeError('vllm was imported')")
        if module:
            (folder / "vllm" / "entrypoints" / "openai" / "api_server.py").touch()
        origin = str(folder / "vllm" / "__init__.py") if package else None
        spec = importlib.machinery.ModuleSpec("vllm", None, origin=origin, is_package=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)


def test_the_two_servers_differ_in_speculation_and_in_nothing_else() -> None:
    flags = ("--gpu-memory-utilization", "0.45")
    fields: dict[str, Any] = {"serve": {"max_model_len": 8192, "enforce_eager": True}, "env": {"A": "b"}}
    baseline, specdec = plan("baseline", flags=flags, **fields), plan("specdec", flags=flags, **fields)
    at = specdec.argv.index("--speculative-config")
    assert specdec.argv[:at] + specdec.argv[at + 2 :] == baseline.argv
    assert json.loads(specdec.argv[at + 1]) == SPECULATIVE
    assert (specdec.env, specdec.unset_env, specdec.cwd, specdec.changes) == (
        baseline.env,
        baseline.unset_env,
        baseline.cwd,
        baseline.changes,
    )


def test_the_words_of_a_server_stand_in_a_fixed_order() -> None:
    planned = plan("specdec", flags=("--extra", "1"), serve={"seed": 0}, serve_specdec={"max_num_seqs": 8})
    assert planned.argv == (
        *("vllm", "serve", "org/m", "--seed", "0", "--extra", "1", "--max-num-seqs", "8"),
        *("--speculative-config", '{"method":"ngram","num_speculative_tokens":4}'),
        *("--host", "127.0.0.1", "--port", "8123", "--served-model-name", "specdec-1"),
    )
    assert (planned.arm, planned.host, planned.port, planned.served_name) == ("specdec", "127.0.0.1", 8123, "specdec-1")


def test_flags_of_the_speculating_side_stay_there_and_are_listed_for_both() -> None:
    fields: dict[str, Any] = {"serve_specdec": ["--max-num-seqs", "8", "--api-key=x"]}
    assert "--max-num-seqs" not in plan("baseline", **fields).argv
    listed = ("on the speculating side only: --max-num-seqs 8", "on the speculating side only: --api-key=***")
    assert plan("baseline", **fields).changes == listed
    assert plan("specdec", **fields).changes == listed


def test_the_server_runs_in_the_configs_folder() -> None:
    assert plan().cwd == Path("/configs")


@pytest.mark.parametrize(
    ("command", "model"),
    [
        (("vllm", "serve"), ("org/m",)),
        (("docker", "run", "image", "vllm", "serve"), ("org/m",)),
        (("python", "-m", "pytest_specdec.testing.fake_vllm"), ("--model", "org/m")),
        (("vllm", "serve", "--enforce-eager"), ("--model", "org/m")),
    ],
)
def test_only_a_command_that_ends_in_serve_gets_the_model_as_a_word(
    command: tuple[str, ...], model: tuple[str, ...]
) -> None:
    argv = plan(command=command).argv
    assert argv[: len(command) + len(model)] == command + model
    assert argv[len(command) + len(model)] == "--host"


def test_port_and_name_are_filled_into_commands_and_other_braces_stay() -> None:
    planned = plan(
        command=("docker", "run", "--name", "{name}", "-e", 'X={"a": 1}', "image"),
        stop_command=("docker", "rm", "-f", "{name}", "{port}"),
    )
    assert planned.argv[3] == "specdec-1"
    assert planned.argv[5] == 'X={"a": 1}'
    assert planned.stop_command == ("docker", "rm", "-f", "specdec-1", "8123")


def test_the_default_command_is_the_server_module_of_this_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_vllm(monkeypatch, tmp_path)
    planned = plan(command=None)
    assert planned.argv[:5] == (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "org/m")
    assert planned.env["PYTHONSAFEPATH"] == "1"


def test_where_the_server_module_is_gone_the_default_is_vllm_serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_vllm(monkeypatch, tmp_path, module=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert command_of(config(command=None)) == ("vllm", "serve")
    assert command_of(config(command=None, serve={"api_server_count": 4})) == ("vllm", "serve")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").touch(mode=0o755)
    assert command_of(config(command=None)) == (str(tmp_path / "bin" / "vllm"), "serve")
    assert plan(command=None).argv[2] == "org/m"


@pytest.mark.parametrize("serve", [{"api_server_count": 4}, {"asc": 4}, ["--api-server-count=4"]])
@pytest.mark.parametrize("side", ["serve", "serve_specdec"])
def test_several_api_servers_need_vllm_serve_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serve: Any, side: str
) -> None:
    install_vllm(monkeypatch, tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"vllm": "0.26.0"}[name])
    arms: tuple[Arm, ...] = ("baseline", "specdec")
    for arm in arms:
        argv = plan(arm, command=None, **{side: serve}).argv
        assert argv[:5] == (sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", "org/m")


def test_several_api_servers_are_an_error_where_vllm_serve_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_such(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    install_vllm(monkeypatch, tmp_path)
    monkeypatch.setattr("importlib.metadata.version", no_such)
    assert "vllm.entrypoints.openai.api_server" in plan(command=None).argv
    with pytest.raises(LaunchError, match="api_server_count needs `vllm serve`, which does not start here") as raised:
        plan(command=None, serve={"api_server_count": 4})
    assert raised.value.remedy.startswith("Leave it out")


def test_without_vllm_the_error_names_the_interpreter_and_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    install_vllm(monkeypatch, None)
    with pytest.raises(LaunchError, match="not installed in this interpreter") as raised:
        plan(command=None)
    assert raised.value.where == sys.executable
    assert "pip install 'pytest-specdec[vllm]'" in raised.value.remedy
    assert "`command`" in raised.value.remedy


def test_a_folder_that_happens_to_be_called_vllm_is_no_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_vllm(monkeypatch, tmp_path, package=False)
    with pytest.raises(LaunchError):
        plan(command=None)


def test_a_vllm_module_without_spec_counts_as_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_spec(_: str) -> None:
        raise ValueError("vllm.__spec__ is None")

    monkeypatch.setattr("importlib.util.find_spec", no_spec)
    with pytest.raises(LaunchError):
        plan(command=None)


def test_the_configs_command_needs_no_vllm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    install_vllm(monkeypatch, None)
    assert plan().argv[:2] == VLLM
    assert "PYTHONSAFEPATH" not in plan().env


@pytest.mark.parametrize(
    "fields",
    [
        {"serve": {"gpu_memory_utilization": 0.8}},
        {"serve": {"gpu-memory-utilization": 0.8}},
        {"serve": ["--gpu_memory_utilization", "0.8"]},
        {"serve": ["--gpu-memory-utilization=0.8"]},
        {"command": ("vllm", "serve", "--gpu-memory-utilization", "0.8")},
        {"serve_specdec": {"gpu_memory_utilization": 0.8}},
    ],
)
@pytest.mark.parametrize("arm", ["baseline", "specdec"])
def test_the_users_own_flag_wins_over_the_plugins_on_both_sides(fields: dict[str, Any], arm: Arm) -> None:
    planned = plan(arm, flags=("--gpu-memory-utilization", "0.45", "--enable-prompt-tokens-details"), **fields)
    assert "0.45" not in planned.argv
    assert "--enable-prompt-tokens-details" in planned.argv
    assert not any("0.45" in change for change in planned.changes)
    assert "--enable-prompt-tokens-details" in planned.changes


def test_a_flag_that_the_user_switched_off_stays_off() -> None:
    assert (
        "--enable-prefix-caching"
        not in plan(serve={"enable_prefix_caching": False}, flags=("--enable-prefix-caching",)).argv
    )


@pytest.mark.parametrize(
    "serve", [{"tp": 2}, ["-tp", "2"], ["-tp=2"], {"tensor_parallel_size": 2}, ["--tensor_parallel_size=2"]]
)
def test_a_flag_is_found_in_any_spelling(serve: Any) -> None:
    assert has_flag(config(serve=serve), "--tensor-parallel-size")
    assert has_flag(config(serve=serve), "-tp")
    assert not has_flag(config(serve=serve), "--pipeline-parallel-size")


def test_a_flag_can_be_looked_for_on_one_side() -> None:
    one_sided = config(serve_specdec={"max_num_seqs": 8})
    assert has_flag(one_sided, "--max-num-seqs")
    assert has_flag(one_sided, "--max-num-seqs", arm="specdec")
    assert not has_flag(one_sided, "--max-num-seqs", arm="baseline")


def test_what_the_plugin_adds_is_listed() -> None:
    planned = plan(flags=("--a", "1", "--b"), extra_env={"VLLM_SERVER_DEV_MODE": "1"})
    assert planned.changes == ("--a 1", "--b", "VLLM_SERVER_DEV_MODE=1")
    assert planned.env["VLLM_SERVER_DEV_MODE"] == "1"


def test_nothing_is_listed_where_nothing_is_changed() -> None:
    assert plan().changes == ()


def test_the_users_own_variable_wins_over_the_plugins() -> None:
    planned = plan(env={"A": "user"}, extra_env={"A": "plugin"})
    assert planned.env["A"] == "user"
    assert planned.changes == ()


def test_variables_that_make_servers_collide_are_unset_and_listed_only_where_they_were_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert plan().unset_env == ("VLLM_PORT", "PROMETHEUS_MULTIPROC_DIR", "VLLM_API_KEY")
    monkeypatch.setenv("VLLM_PORT", "9000")
    assert plan().changes == ("VLLM_PORT unset",)


@pytest.mark.parametrize(
    ("inherited", "own", "expected"),
    [
        ({}, {}, "127.0.0.1,localhost"),
        ({"NO_PROXY": "corp, localhost"}, {}, "corp,localhost,127.0.0.1"),
        ({"no_proxy": "corp"}, {"no_proxy": "mine"}, "mine,127.0.0.1,localhost"),
    ],
)
def test_loopback_goes_past_any_proxy(
    monkeypatch: pytest.MonkeyPatch, inherited: dict[str, str], own: dict[str, str], expected: str
) -> None:
    for name, value in inherited.items():
        monkeypatch.setenv(name, value)
    planned = plan(env=own)
    assert (planned.env["no_proxy"], planned.env["NO_PROXY"]) == (expected, expected)


@pytest.mark.parametrize(
    ("visible", "baseline", "specdec"),
    [(None, "0,1", "2"), ("4,5,6", "4,5", "6"), ("GPU-a, GPU-b,GPU-c", "GPU-a,GPU-b", "GPU-c")],
)
def test_devices_count_among_those_that_are_shown(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, baseline: str, specdec: str
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = Devices(baseline=(0, 1), specdec=(2,))
    assert plan("baseline", devices=devices).env["CUDA_VISIBLE_DEVICES"] == baseline
    assert plan("specdec", devices=devices).env["CUDA_VISIBLE_DEVICES"] == specdec
    assert plan("specdec", devices=devices).changes == (f"CUDA_VISIBLE_DEVICES={specdec}",)


def test_devices_count_among_those_that_the_config_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    own = plan("specdec", devices=Devices(baseline=(0,), specdec=(1,)), env={"CUDA_VISIBLE_DEVICES": "6,7"})
    assert own.env["CUDA_VISIBLE_DEVICES"] == "7"


def test_a_device_that_is_not_shown_is_an_error_and_never_someone_elses_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with pytest.raises(LaunchError, match="CUDA_VISIBLE_DEVICES=4,5 shows 2"):
        plan("specdec", devices=Devices(baseline=(0,), specdec=(4,)))


def test_without_devices_cuda_visible_devices_is_left_alone() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in plan().env


OTHER: dict[str, Any] = {
    "model": "org/other",
    "serve": {"max_model_len": 1},
    "command": ("vllm", "serve", "--enforce-eager"),
    "env": {"A": "b"},
    "devices": Devices(baseline=(1,), specdec=(1,)),
    "placement": "swap",
}
SAME: dict[str, Any] = {
    "id": "other",
    "path": Path("/elsewhere/other.yaml"),
    "speculative_config": {"method": "suffix"},
    "serve_specdec": {"max_num_seqs": 8},
    "startup_timeout_s": 5,
    "devices": Devices(baseline=(0,), specdec=(3,)),
}


@pytest.mark.parametrize("field", OTHER)
def test_a_baseline_is_another_one_where_it_would_be_started_otherwise(field: str) -> None:
    same = config(devices=Devices(baseline=(0,), specdec=(1,)))
    assert baseline_key(same.model_copy(update={field: OTHER[field]})) != baseline_key(same)


@pytest.mark.parametrize("field", SAME)
def test_a_baseline_is_shared_whatever_the_speculating_side_does(field: str) -> None:
    same = config(devices=Devices(baseline=(0,), specdec=(1,)))
    assert baseline_key(same.model_copy(update={field: SAME[field]})) == baseline_key(same)


def test_the_order_of_keys_makes_no_other_baseline() -> None:
    first, second = {"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}
    assert baseline_key(config(serve=first)) == baseline_key(config(serve=second))


def test_one_relative_path_in_two_folders_makes_two_baselines_and_two_paths_to_one_folder_make_one(
    tmp_path: Path,
) -> None:
    for folder in ("a/m", "b/m"):
        (tmp_path / folder).mkdir(parents=True)
    first, second = (config(path=tmp_path / folder / "c.yaml", model="./m") for folder in "ab")
    assert baseline_key(first) != baseline_key(second)
    assert baseline_key(first) == baseline_key(config(path=tmp_path / "b" / "c.yaml", model="../a/m"))


def test_secrets_are_masked_for_whoever_prints_a_plan() -> None:
    assert masked_argv(["--api-key", "x"]) == ("--api-key", "***")
    assert masked_env({"HF_TOKEN": "x"}) == {"HF_TOKEN": "***"}
    planned = plan(flags=("--api-key", "x"), extra_env={"HF_TOKEN": "x"})
    assert planned.changes == ("--api-key ***", "HF_TOKEN=***")


def test_planning_imports_neither_vllm_nor_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from pytest_specdec.core.config import SpecConfig; "
        "from pytest_specdec.serving.command import plan_launch; "
        "plan_launch(SpecConfig(id='c', path=Path('/c/c.json'), model='m', speculative_config={'a': 1}, command=('vllm', 'serve')),"
        " 'specdec', port=1, served_name='n'); "
        "print({'vllm', 'torch', 'aiohttp', 'numpy', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
