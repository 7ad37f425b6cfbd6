"""TPUs through libtpu and jaxlib.

The client is made as in jax/_src/xla_bridge.py of 0.11.2 and 0.12.0.1 (`make_tpu_client`). It has
never run on a TPU.
"""

from collections.abc import Iterable
from typing import Any

from aotc_runtime.engines.xla.tpu_facts import PLATFORM, PLUGIN
from aotc_runtime.engines.xla.xla_accelerator import Accelerated, library_of, start_plugin

LIBRARY = "libtpu.so"


class TpuDevice(Accelerated):
    """The TPUs of this process."""

    platform = PLATFORM

    def make_client(self, xla_client: Any, devices: int) -> Any:
        """Return the plugin's client. Raises XLA's error where it finds no device."""
        start_plugin(xla_client, PLATFORM, str(library_of(PLUGIN, LIBRARY)))
        return xla_client.make_c_api_client(PLATFORM, {})

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Do nothing: libtpu compiled custom calls into the executable."""
