"""NVIDIA GPUs as XLA sees them, through the CUDA plugin and jaxlib alone.

What jax does when it finds the plugin (jax_plugins/xla_cuda13/__init__.py, jax/_src/xla_bridge.py
`register_plugin`, in 0.11.2 and 0.12.0.1): NVIDIA's libraries of the Python packages are loaded so
that XLA finds them, then the plugin, then a client is made, and the kernels of jax-cuda13-plugin
are registered. Private names beside those of `client`:

    jaxlib.xla_client: load_pjrt_plugin_dynamically, pjrt_plugin_loaded, initialize_pjrt_plugin,
        pjrt_plugin_initialized, make_c_api_client, generate_pjrt_gpu_plugin_options,
        register_custom_call_handler, register_custom_type_handler, _xla.get_pjrt_plugin
    jax_cuda13_plugin: cuda_plugin_extension, registrations() of its kernels
"""

import ctypes
import importlib
import importlib.util
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from aotc_runtime.engines.xla.cuda_facts import PLATFORM
from aotc_runtime.engines.xla.xla_accelerator import Accelerated, library_of, start_plugin
from aotc_runtime.schema.served_kernels import cuda_module

PLUGIN = "jax_plugins.xla_cuda13"
LIBRARY = "xla_cuda_plugin.so"
REGISTERED_AS = "CUDA"

LIBRARIES = (
    ("cu13", ("libcudart.so.13", "libnvrtc.so.13", "libcublas.so.13", "libcublasLt.so.13")),
    ("nccl", ("libnccl.so.2",)),
    ("cu13", ("libcupti.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12")),
    ("nvshmem", ("libnvshmem_host.so.3",)),
    ("cudnn", ("libcudnn.so.9",)),
)
"""Below the package `nvidia`, in the order in which the plugin's own Python code loads them."""


class CudaDevice(Accelerated):
    """The GPUs of this process."""

    platform = PLATFORM
    dlpack_kind = 2

    def __init__(self) -> None:
        self._registered: set[str] = set()
        super().__init__()

    def make_client(self, xla_client: Any, devices: int) -> Any:
        """Return the plugin's client, of all GPUs. Raises XLA's error where it finds no device."""
        self._jaxlib = xla_client
        _load_libraries()
        start_plugin(xla_client, PLATFORM, str(library_of(PLUGIN, LIBRARY)))
        self._plugin = xla_client._xla.get_pjrt_plugin(PLATFORM)
        options = xla_client.generate_pjrt_gpu_plugin_options()
        return xla_client.make_c_api_client(PLATFORM, options)

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Register jax's own kernels that these custom calls name; only those that are needed."""
        wanted = {name for target in targets if (name := cuda_module(target))}
        with self._lock:
            for name in sorted(wanted - self._registered):
                self._register_kernels(name)
                self._registered.add(name)

    def _register_kernels(self, name: str) -> None:
        if not self._registered:
            extension = importlib.import_module("jax_cuda13_plugin.cuda_plugin_extension")
            self._jaxlib.register_custom_type_handler(
                REGISTERED_AS, partial(extension.register_custom_type, self._plugin)
            )
            self._jaxlib.register_custom_call_handler(
                REGISTERED_AS, partial(extension.register_custom_call_target, self._plugin)
            )
        kernels = importlib.import_module(f"jax_cuda13_plugin.{name}").registrations()
        for target, function in kernels.items():
            self._register(target, function, REGISTERED_AS, api_version=1)


def _load_libraries() -> None:
    """Load CUDA's libraries that are installed as packages; XLA looks for others by itself."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(each) for each in (spec and spec.submodule_search_locations) or ()]
    for package, names in LIBRARIES:
        for name in names:
            for folder in folders:
                path = folder / package / "lib" / name
                if path.exists():
                    ctypes.CDLL(str(path))
