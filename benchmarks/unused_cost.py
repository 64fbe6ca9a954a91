"""What the installed plugin adds to a pytest start that does not use it.

Runs ``pytest --co -q`` in an empty project again and again, each round once without any plugin and once with each of
the plugins compared, in changing order, and reports the median of the differences within rounds. Beside this plugin its
peers are measured in the same way. All other installed plugins are switched off in every run, so that none hides the cost
of modules it imports first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "specdec"
PEERS = ("benchmark", "hypothesispytest", "xdist")
COLLECT = ("--co", "-q", "-p", "no:cacheprovider")
PROBE = """
import json, sys
processes = []
starts = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}
sys.addaudithook(lambda event, args: processes.append(event) if event in starts else None)
import pytest
pytest.main(sys.argv[1:])
print("PROBE" + json.dumps({"modules": sorted(sys.modules), "processes": len(processes)}))
"""


@dataclass(frozen=True)
class Cost:
    """Cost of one plugin against no plugin."""

    plugin: str
    rounds: int
    wall_ms: float
    """Median of the differences in wall time."""
    wall_ms_low: float
    wall_ms_high: float
    """95 % interval of that median, from order statistics."""
    cpu_ms: float
    """Median of the differences in user and system time."""
    ratio: float
    """Median of wall time with the plugin over wall time without, per round."""
    modules: int
    """Modules imported beyond those of pytest alone."""
    processes: int
    """Processes started."""


def main() -> int:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40, help="rounds at most (default 40)")
    parser.add_argument(
        "--budget-s", type=float, default=120.0, help="no new round after so many seconds (default 120)"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()

    installed = sorted({point.name for point in entry_points(group="pytest11")})
    plugins = [name for name in (PLUGIN, *PEERS) if name in installed]
    if PLUGIN not in plugins:
        print(f"{PLUGIN} is not installed in {sys.executable}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = {plugin: blocking(installed, plugin) for plugin in (None, *plugins)}
        imported = {plugin: probe(folder, words) for plugin, words in arguments.items()}
        walls, cpus = measure(folder, arguments, rounds=options.rounds, budget_s=options.budget_s)

    bare_modules, bare_processes = imported[None]
    costs = [
        cost_of(plugin, walls, cpus, modules=len(imported[plugin][0] - bare_modules), processes=imported[plugin][1])
        for plugin in plugins
    ]
    bare_ms = statistics.median(walls[None]) * 1000
    print_table(costs, bare_ms=bare_ms, bare_modules=len(bare_modules), bare_processes=bare_processes)
    if options.json:
        figures = {"python": sys.version.split()[0], "bare_ms": bare_ms, "plugins": [asdict(cost) for cost in costs]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def blocking(installed: list[str], plugin: str | None) -> list[str]:
    """Arguments that switch off every installed plugin but one."""
    blocked = [name for name in installed if name != plugin]
    return [*COLLECT, *(word for name in blocked for word in ("-p", f"no:{name}"))]


def measure(
    folder: Path, arguments: dict[str | None, list[str]], *, rounds: int, budget_s: float
) -> tuple[dict[str | None, list[float]], dict[str | None, list[float]]]:
    """Wall and CPU seconds of each arm, one entry per round; the first round is a warm-up and not kept."""
    walls: dict[str | None, list[float]] = {plugin: [] for plugin in arguments}
    cpus: dict[str | None, list[float]] = {plugin: [] for plugin in arguments}
    order = random.Random(0)  # noqa: S311 - the order of runs is no secret
    ends_s = time.monotonic() + budget_s
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > ends_s:
            break
        for plugin in order.sample(list(arguments), len(arguments)):
            wall_s, cpu_s = run_once(folder, arguments[plugin])
            if number:
                walls[plugin].append(wall_s)
                cpus[plugin].append(cpu_s)
    return walls, cpus


def environment() -> dict[str, str]:
    """With bytecode kept, as users have it: pip compiles what it installs, and pytest keeps what it has rewritten."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_once(folder: Path, words: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one start; nothing is collected, so pytest exits with 5."""
    started_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words], cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 5:
        raise RuntimeError(f"pytest {' '.join(words)} exited with {process.returncode}")
    return wall_s, usage.ru_utime + usage.ru_stime


def probe(folder: Path, words: list[str]) -> tuple[set[str], int]:
    """Modules imported and processes started by one start."""
    done = subprocess.run([sys.executable, "-c", PROBE, *words], cwd=folder, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.rpartition("PROBE")[2])
    return set(answer["modules"]), answer["processes"]


def cost_of(
    plugin: str,
    walls: dict[str | None, list[float]],
    cpus: dict[str | None, list[float]],
    *,
    modules: int,
    processes: int,
) -> Cost:
    """Paired differences of one plugin to the bare start of the same round."""
    wall_ms = sorted((own - bare) * 1000 for own, bare in zip(walls[plugin], walls[None], strict=True))
    cpu_ms = [(own - bare) * 1000 for own, bare in zip(cpus[plugin], cpus[None], strict=True)]
    low, high = median_interval(wall_ms)
    return Cost(
        plugin=plugin,
        rounds=len(wall_ms),
        wall_ms=statistics.median(wall_ms),
        wall_ms_low=low,
        wall_ms_high=high,
        cpu_ms=statistics.median(cpu_ms),
        ratio=statistics.median(own / bare for own, bare in zip(walls[plugin], walls[None], strict=True)),
        modules=modules,
        processes=processes,
    )


def median_interval(ordered: list[float]) -> tuple[float, float]:
    """95 % interval of the median of sorted values (binomial order statistics, normal approximation)."""
    count = len(ordered)
    reach = 1.96 * count**0.5 / 2
    low, high = int(count / 2 - reach), int(count / 2 + reach)
    return ordered[max(0, low)], ordered[min(count - 1, high)]


def print_table(costs: list[Cost], *, bare_ms: float, bare_modules: int, bare_processes: int) -> None:
    """One line per plugin, pytest alone above them."""
    rounds = costs[0].rounds
    print(f"pytest --co -q in an empty project, Python {sys.version.split()[0]}, {rounds} rounds")
    print(f"pytest alone: {bare_ms:.0f} ms, {bare_modules} modules, {bare_processes} processes\n")
    print(f"{'plugin':<18}{'adds':>9}  {'95 % interval':<18}{'CPU':>9}{'ratio':>8}{'modules':>9}{'processes':>11}")
    for cost in costs:
        interval = f"{cost.wall_ms_low:.1f} .. {cost.wall_ms_high:.1f}"
        print(
            f"{cost.plugin:<18}{cost.wall_ms:>6.1f} ms  {interval:<18}{cost.cpu_ms:>6.1f} ms{cost.ratio:>8.3f}"
            f"{cost.modules:>9}{cost.processes:>11}"
        )


if __name__ == "__main__":
    sys.exit(main())
