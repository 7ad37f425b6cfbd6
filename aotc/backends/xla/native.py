"""The host that builds, described as a target by XLA itself."""

from __future__ import annotations

import os

from aotc.backends.cpu import isa
from aotc.backends.targets import NATIVE
from aotc.backends.xla import private, topology
from aotc_runtime.schema.manifest import Target


def describe_native() -> Target:
    """This host as a target; threads are the CPUs this process may use."""
    machine = topology.read_machine(private.host_topology(private.cpu_client()))
    required, tuning = isa.split(machine.features.split(","))
    return Target(
        name=NATIVE,
        platform="cpu",
        triple=machine.triple,
        cpu=machine.cpu,
        features=required,
        tuning=tuning,
        threads=len(os.sched_getaffinity(0)),
        options={},
    )
