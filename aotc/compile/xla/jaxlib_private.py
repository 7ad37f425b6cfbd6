"""All private jaxlib names of the compiler side, with the versions seen: 0.11.2, 0.12.0, 0.12.0.1.

Imports jaxlib, never jax: the compile worker starts in a fifth of a second. Besides `NAMES` below:
`jaxlib.lapack.registrations`, and `_xla.mlir.mlir_module_to_xla_computation`, which XLA's own
targets do not need. Those of MLIR's dialects are in `aotc.compile.mlir.mlir_context`.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from io import BytesIO
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read by jaxlib when it is loaded

import jaxlib.version
import numpy as np
from jaxlib import lapack, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import builtin  # noqa: F401 - else imported with the first module

from aotc.compile.mlir import mlir_context
from aotc.compile.xla import cpu_topology

_ELEMENTS_SHOWN = 16
"""Numbers of a constant that a module's text shows."""

NO_PROFILE = -1
"""jax's `_NO_PROFILE_DONT_RETRIEVE`: profile_version that never asks for an AutoFDO profile."""

_STRUCTURE = ("builtin.module", "func.call", "func.func", "func.return", "stablehlo.return")
"""Operations that are structure, not work."""

NAMES = (
    "CompileOptions",
    "CompileOptions.SerializeAsString",
    "DeviceList",
    "XlaRuntimeError",
    "_version",
    "_xla.CompiledMemoryStats.alias_size_in_bytes",
    "_xla.CompiledMemoryStats.argument_size_in_bytes",
    "_xla.CompiledMemoryStats.output_size_in_bytes",
    "_xla.CompiledMemoryStats.temp_size_in_bytes",
    "_xla.DeviceAssignment.create",
    "_xla.DeviceTopology._make_compile_only_devices",
    "_xla.DeviceTopology.deserialize",
    "_xla.DeviceTopology.serialize",
    "_xla.Executable.get_compiled_memory_stats",
    "_xla.Executable.hlo_modules",
    "_xla.Executable.serialize",
    "_xla.get_topology_for_devices",
    "_xla.hlo_module_cost_analysis",
    "_xla.ifrt_version_number",
    "make_cpu_client",
    "register_custom_call_target",
)
"""Names used of `jaxlib.xla_client`, besides the methods of a client."""

XlaError = xla_client.XlaRuntimeError
"""The error of XLA for a program that it cannot compile."""

MlirError = ir.MLIRError
"""The error of MLIR for a module that it cannot verify."""


def missing(names: Iterable[str] = NAMES) -> list[str]:
    """Return the names that the installed jaxlib lacks."""

    def absent(name: str) -> bool:
        try:
            reduce(getattr, name.split("."), xla_client)
        except AttributeError:
            return True
        return False

    return [name for name in names if absent(name)]


def versions() -> dict[str, str | int]:
    """Identity of the installed jaxlib: version, commit, XLA and IFRT interface versions."""
    return {
        "jaxlib": str(jaxlib.version.__version__),
        "commit": str(jaxlib.version._git_hash or ""),
        "xla": int(xla_client._version),
        "ifrt": int(xla_client._xla.ifrt_version_number),
        "stablehlo": mlir_context.stablehlo_version(),
    }


def cpu_client(devices: int = 1) -> Any:
    """Return a CPU client with this many devices, for the host's topology and cost model."""
    return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)


def host_topology(client: Any) -> bytes:
    """Return this host's serialized topology: triple, processor and features as XLA names them."""
    return bytes(xla_client._xla.get_topology_for_devices(client.devices()).serialize())


def artifact_text(artifact: bytes) -> str:
    """Return a portable artifact as MLIR without large constants. Raises ValueError, MlirError."""
    module = mlir_context.read_artifact(artifact)
    return str(module.operation.get_asm(large_elements_limit=_ELEMENTS_SHOWN))


PARTITIONING = re.compile(r"Sharding|SPMD(FullToShard|ShardToFull)Shape|xla\.sdy\..*")
"""Custom calls that tell the partitioner how to split a program; it removes all of them."""


def custom_call_targets(module: Any) -> list[str]:
    """Return the sorted custom-call targets of an MLIR module, without PARTITIONING."""
    calls = mlir_context.operations_named(module, ("stablehlo.custom_call",))
    names = {str(ir.StringAttr(call.attributes["call_target_name"]).value) for call in calls}
    return sorted(name for name in names if not PARTITIONING.fullmatch(name))


def operations(module: Any) -> dict[str, int]:
    """Count the operations in an MLIR module, by name; a loop's body counts once."""
    found: Counter[str] = Counter()

    def visit(operation: Any) -> Any:
        found[str(operation.name)] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return {name: found[name] for name in sorted(found) if name not in _STRUCTURE}


def default_options() -> bytes:
    """Return a CompileOptionsProto with what this jaxlib's XLA does by default."""
    return bytes(xla_client.CompileOptions().SerializeAsString())


def register_lapack() -> None:
    """Let XLA compile calls into LAPACK.

    To execute them, jaxlib would also have to look up scipy's functions, which takes 0.1 s.
    """
    for name, function, api_version in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, function, "cpu", api_version=api_version)


def compile_module(
    module: Any,
    machine: cpu_topology.Machine,
    client: Any,
    options: Mapping[str, str],
    assignment: Sequence[int],
) -> Any:
    """Compile an MLIR module for a machine with the client's devices; an unloaded `Executable`.

    `assignment` has the device of each partition. Raises XlaError.
    """
    edited = cpu_topology.with_machine(host_topology(client), machine)
    description = xla_client._xla.DeviceTopology.deserialize(edited)
    count = len(assignment)
    compile_options = xla_client.CompileOptions()
    if count > 1:
        build = compile_options.executable_build_options
        build.num_replicas, build.num_partitions = 1, count
        compile_options.device_assignment = xla_client._xla.DeviceAssignment.create(
            np.array(assignment, np.int32).reshape(1, count)
        )
    devices = tuple(description._make_compile_only_devices()[:count])
    return compile_on(devices, module, compile_options, options)


def compile_on(
    devices: tuple[Any, ...], module: Any, compile_options: Any, options: Mapping[str, str]
) -> Any:
    """Compile an MLIR module for described devices, one for each partition.

    The result is an unloaded `Executable`. Raises XlaError if XLA rejects the module.
    """
    compile_options.num_replicas, compile_options.num_partitions = 1, len(devices)
    if len(devices) > 1:
        compile_options.executable_build_options.use_spmd_partitioning = True
        compile_options.executable_build_options.use_shardy_partitioner = True
    compile_options.profile_version = NO_PROFILE
    compile_options.env_option_overrides = sorted(options.items())
    with module.context:
        return devices[0].client.compile(
            module,
            executable_devices=xla_client.DeviceList(devices),
            compile_options=compile_options,
        )


def memory(executable: Any) -> dict[str, int]:
    """XLA's memory analysis of an unloaded executable, bytes by purpose."""
    stats = executable.get_compiled_memory_stats()
    return {
        purpose: int(getattr(stats, f"{purpose}_size_in_bytes"))
        for purpose in ("argument", "output", "temp", "alias")
    }


def hlo_text(executable: Any) -> str:
    """Return the optimized HLO of an unloaded executable."""
    return str(executable.hlo_modules()[0].to_string())


def hlo_proto(executable: Any) -> bytes:
    """Return the optimized HLO of an unloaded executable, an HloModuleProto."""
    return bytes(executable.hlo_modules()[0].as_serialized_hlo_module_proto())


def cost(client: Any, executable: Any) -> dict[str, float]:
    """XLA's cost analysis of an unloaded executable."""
    module = executable.hlo_modules()[0]
    return dict(xla_client._xla.hlo_module_cost_analysis(client, module))


def module_cost(client: Any, module: Any) -> dict[str, float]:
    """XLA's cost analysis of an MLIR module as it was written, before any pass. Raises XlaError."""
    with module.context:
        written = BytesIO()
        module.operation.write_bytecode(written)
    computation = xla_client._xla.mlir.mlir_module_to_xla_computation(
        written.getvalue(), use_tuple_args=False, return_tuple=False
    )
    return dict(xla_client._xla.hlo_module_cost_analysis(client, computation.as_hlo_module()))
