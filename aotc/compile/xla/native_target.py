"""The host that builds, described as a target by XLA itself."""

import os

from aotc.compile.cpu import cpu_isa
from aotc.compile.target_files import NATIVE
from aotc.compile.xla import cpu_topology, jaxlib_private
from aotc_runtime.schema.bundle_manifest import Target


def describe_native() -> Target:
    """Return this host as a target; threads are the CPUs this process may use."""
    machine = cpu_topology.read_machine(jaxlib_private.host_topology(jaxlib_private.cpu_client()))
    required, tuning = cpu_isa.split(machine.features.split(","))
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
