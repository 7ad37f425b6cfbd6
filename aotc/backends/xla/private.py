"""Every private jaxlib name of the compiler side, with the versions seen: 0.11.2, 0.12.0, 0.12.0.1.

Imports jaxlib alone, never jax: the compile worker starts in a tenth of a second.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read by jaxlib when it is loaded

import jaxlib.version
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo

from aotc.backends.xla import protobuf
from aotc.backends.xla.protobuf import BYTES, Field

NO_PROFILE = -1
"""jax's `_NO_PROFILE_DONT_RETRIEVE`: profile_version that never asks for an AutoFDO profile."""


def versions() -> dict[str, str | int]:
    """Identity of the installed jaxlib: version, commit, XLA and IFRT interface versions."""
    return {
        "jaxlib": str(jaxlib.version.__version__),
        "commit": str(jaxlib.version._git_hash or ""),
        "xla": int(xla_client._version),
        "ifrt": int(xla_client._xla.ifrt_version_number),
        "stablehlo": str(stablehlo.get_current_version()),
    }


def cpu_client() -> Any:
    """A CPU client: source of the topology, and of the cost model."""
    return xla_client.make_cpu_client(asynchronous=False)


def host_topology(client: Any) -> bytes:
    """The serialized topology of this host: triple, processor and features in XLA's spelling."""
    return bytes(xla_client._xla.get_topology_for_devices(client.devices()).serialize())


def _machine_path(fields: list[Field]) -> tuple[list[int], list[Field]]:
    """Indices down to the message {1: triple, 2: cpu, 3: features} within a topology."""
    for index, field in enumerate(fields):
        inner = protobuf.message(field)
        if inner is None:
            continue
        values = [f.value for f in inner]
        if len(inner) == 3 and isinstance(values[0], bytes) and b"-linux-" in values[0]:
            return [index], inner
        path, machine = _machine_path(inner)
        if path:
            return [index, *path], machine
    return [], []


def read_machine(topology: bytes) -> tuple[str, str, str]:
    """Triple, processor name and feature string of a serialized CPU topology.

    Raises LookupError if the topology is not laid out as in the versions above.
    """
    path, machine = _machine_path(protobuf.parse(topology))
    if not path:
        raise LookupError("no target machine in the topology")
    triple, cpu, features = (bytes(f.value).decode() for f in machine)
    return triple, cpu, features


def with_machine(topology: bytes, triple: str, cpu: str, features: str) -> bytes:
    """The topology with another target machine."""
    replacement = protobuf.serialize(
        [
            Field(number, BYTES, text.encode())
            for number, text in enumerate((triple, cpu, features), start=1)
        ]
    )
    fields = protobuf.parse(topology)
    path, _ = _machine_path(fields)
    if not path:
        raise LookupError("no target machine in the topology")

    def replace(level: list[Field], steps: list[int]) -> bytes:
        index, *rest = steps
        inner = protobuf.message(level[index])
        value = replace(inner, rest) if rest and inner else replacement
        level[index] = Field(level[index].number, BYTES, value)
        return protobuf.serialize(level)

    return replace(fields, path)


def compile_artifact(artifact: bytes, topology: bytes, options: dict[str, str]) -> Any:
    """Compile a portable artifact for a topology's first device; an unloaded `Executable`."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        description = xla_client._xla.DeviceTopology.deserialize(topology)
        device = description._make_compile_only_devices()[0]
        compile_options = xla_client.CompileOptions()
        compile_options.num_replicas = 1
        compile_options.num_partitions = 1
        compile_options.profile_version = NO_PROFILE
        compile_options.env_option_overrides = sorted(options.items())
        return device.client.compile(
            module,
            executable_devices=xla_client.DeviceList((device,)),
            compile_options=compile_options,
        )


def cost(client: Any, executable: Any) -> dict[str, float]:
    """XLA's cost analysis of an unloaded executable."""
    module = executable.hlo_modules()[0]
    return dict(xla_client._xla.hlo_module_cost_analysis(client, module))


XlaError = xla_client.XlaRuntimeError
"""What XLA raises for a program that it cannot compile."""
