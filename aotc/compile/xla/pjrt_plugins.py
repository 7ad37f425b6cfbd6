"""PJRT plugins as compilers for devices that are described, not present.

Uses private jaxlib names besides those of `jaxlib_private`, seen in 0.11.2 and 0.12.0.1.
"""

import importlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from jaxlib import xla_client
from jaxlib.mlir import ir

from aotc.compile.xla.jaxlib_private import compile_on

NAMES = (
    "load_pjrt_plugin_dynamically",
    "make_c_api_device_topology",
    "register_custom_call_handler",
    "register_custom_type_handler",
    "initialize_pjrt_plugin",
    "_xla.CompiledMemoryStats.generated_code_size_in_bytes",
    "_xla.DeviceTopology.deserialize",
    "_xla.Executable.cost_analysis",
)
"""Names used of `jaxlib.xla_client`."""


def load(name: str, library: str) -> Any:
    """Return the C interface of a plugin. Raises XlaError."""
    return xla_client.load_pjrt_plugin_dynamically(name, library)


def initialize(name: str) -> None:
    """Let a loaded plugin read its settings, without which libtpu ends the process."""
    xla_client.initialize_pjrt_plugin(name)


def describe(plugin: Any, options: Mapping[str, str | list[int]], name: str = "") -> bytes:
    """Return devices as the plugin describes them: a serialized topology. Raises XlaError."""
    return bytes(xla_client.make_c_api_device_topology(plugin, name, **options).serialize())


def kinds(description: bytes) -> list[str]:
    """Return the product name of each described device."""
    described = xla_client._xla.DeviceTopology.deserialize(description)
    return [str(device.device_kind) for device in described._make_compile_only_devices()]


def code_bytes(executable: Any) -> int:
    """Return the size of an unloaded executable's code on the device."""
    return int(executable.get_compiled_memory_stats().generated_code_size_in_bytes)


def cost(executable: Any) -> dict[str, float]:
    """Return the plugin's own cost analysis of an unloaded executable."""
    return dict(executable.cost_analysis())


def register_cuda_kernels(plugin: Any, modules: Iterable[str]) -> None:
    """Let XLA compile calls of jax's own kernels; `modules` are jax-cuda13-plugin's ("_solver")."""
    wanted = sorted(modules)
    if not wanted:
        return
    extension = importlib.import_module("jax_cuda13_plugin.cuda_plugin_extension")
    xla_client.register_custom_type_handler("CUDA", partial(extension.register_custom_type, plugin))
    xla_client.register_custom_call_handler(
        "CUDA", partial(extension.register_custom_call_target, plugin)
    )
    for name in wanted:
        kernels = importlib.import_module(f"jax_cuda13_plugin.{name}").registrations()
        for target, function in kernels.items():
            # Version 1 is the typed interface, which jaxlib/gpu_solver.py and its siblings state
            # for every kernel that `aotc_runtime.schema.served_kernels` lets pass.
            xla_client.register_custom_call_target(target, function, "CUDA", api_version=1)


def compile_for(description: bytes, module: Any, options: Mapping[str, str]) -> Any:
    """Compile an MLIR module for the first described device, or for all its partitions.

    The result is an unloaded `Executable`. Raises XlaError if the plugin rejects the module.
    """
    described = xla_client._xla.DeviceTopology.deserialize(description)
    attributes, stated = module.operation.attributes, "mhlo.num_partitions"
    count = ir.IntegerAttr(attributes[stated]).value if stated in attributes else 1
    devices = tuple(described._make_compile_only_devices())[:count]
    return compile_on(devices, module, xla_client.CompileOptions(), options)
