"""Both servers run on a Ray cluster: each is held by an actor, for which Ray's scheduler finds a node and GPUs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import ray

from pytest_specdec import Launched
from pytest_specdec.serving.supervisor import Supervisor

GPUS = int(os.environ.get("GPUS_PER_SERVER", "1"))
PLACED_S = 600
"""A cluster without free GPUs may still be scaling up; later the test is an ERROR that says so."""


@ray.remote(num_cpus=1, num_gpus=GPUS)
class ServerHolder:
    """One server under the plugin's own supervisor: when the actor goes away, so does the server, with all its workers."""

    def start(self, argv: list[str], env: dict[str, str]) -> str:
        """Returns where it will answer."""
        # The plugin's port is free where pytest runs, which says nothing about this node.
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        self.server = Supervisor(
            [*argv, "--host", "0.0.0.0", "--port", str(port)],  # noqa: S104 - to be reached from where pytest runs
            env=os.environ | env,
            cwd=Path.cwd(),
            log=Path("/proc/self/fd/2").resolve(),  # the actor's stderr, which Ray keeps among its logs
        )
        return f"http://{ray.util.get_node_ip_address()}:{port}"

    def stop(self) -> None:
        """Returns when it is gone, and its GPUs are free."""
        self.server.end()


def pytest_specdec_launch(argv: tuple[str, ...], env: dict[str, str]) -> Launched:
    if not ray.is_initialized():
        ray.init(log_to_driver=False)  # the cluster of RAY_ADDRESS; a local one where it is not set
    holder = ServerHolder.remote()
    url = ray.get(holder.start.remote([*argv], env), timeout=PLACED_S)

    def stop() -> None:
        ray.get(holder.stop.remote())
        ray.kill(holder)

    return Launched(url=url, stop=stop)


def pytest_unconfigure() -> None:
    ray.shutdown()
