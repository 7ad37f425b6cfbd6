"""A Ray cluster of two nodes on this machine, and what of it runs as processes."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from served import Client
from waiting import until

STORE_BYTES = 100 * 2**20

NODE = {"num_cpus": 8, "object_store_memory": STORE_BYTES, "include_dashboard": False}
"""Processors by name alone: Ray counts what replicas ask for."""

NAME = "digits"

TITLES = ("ray::", "raylet", "gcs_server")

STARTS = 4
"""Ray gives each node 30 seconds to start, which a busy machine may not have."""


class OnRay(Client):
    """The application of a cluster. address: of the cluster."""

    def __init__(self, port: int, cluster: Any) -> None:
        self.port, self.address = port, cluster.address

    def deploy(self, bundle: Path | str, trust: Path, **arguments: object) -> None:
        """As `serve run` does it, until it runs. Raises what the builder does; RuntimeError if the
        replicas do not start.
        """
        from ray import serve

        from aotc_serve.ray.ray_app import app

        given = {name: str(value) for name, value in arguments.items()}
        built = app({"bundle": str(bundle), "trust": str(trust), **given})
        serve.run(built, name=NAME, route_prefix="/")

    def deployment(self, name: str = "bundle") -> Any:
        """Its status as Ray has it."""
        from ray import serve

        return serve.status().applications[NAME].deployments[name]

    def running(self) -> int:
        return int(self.deployment().replica_states.get("RUNNING", 0))


@contextmanager
def two_nodes() -> Iterator[OnRay]:
    """None of its processes is left after the block, and no file."""
    import ray
    from ray import serve

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Its sockets lie there, whose paths have to be short.
    with tempfile.TemporaryDirectory(
        prefix="aotc-ray-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        # Where it notes the cluster's address, in a folder that it does not make.
        os.environ["RAY_TMPDIR"] = folder
        (Path(folder) / "ray").mkdir()
        cluster = _started(folder)
        try:
            ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
            options = {"host": "127.0.0.1", "port": port}
            serve.start(http_options=options, proxy_location="HeadOnly")
            yield OnRay(port, cluster)
        finally:
            serve.shutdown()
            ray.shutdown()
            started = [process for title in TITLES for process in processes(title)]
            cluster.shutdown()
            until(
                lambda: not any(Path(f"/proc/{each}").exists() for each in started), "Ray has ended"
            )


def _started(folder: str) -> Any:
    from ray.cluster_utils import Cluster

    for left in reversed(range(STARTS)):
        cluster = Cluster()
        try:
            cluster.add_node(**NODE, temp_dir=folder)
            cluster.add_node(**NODE)
        except (Exception, SystemExit):  # the latter where its first process is not there in time
            cluster.shutdown()
            for process in [each for title in TITLES for each in processes(title)]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not left:
                raise
        else:
            break
    return cluster


def processes(title: str) -> list[int]:
    """Return descendants of this process with this name."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            titles[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = []
    for process, called in titles.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and title in called:
            found.append(process)
    return found
