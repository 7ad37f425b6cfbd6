"""What accelerators have in common: memory of their own, and nothing is compiled for them here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc_runtime.errors import BackendError, Finding
from aotc_runtime.schema.proof import VerifiedBlob
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Aval, Buffer, Executable


class Accelerated(pjrt.Device):
    """Devices of a plugin. Arrays are copied to them and back; nothing is shared."""

    def compile_symbolic(
        self,
        module: VerifiedBlob,
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
        options: Mapping[str, str],
        where: str,
    ) -> Executable:
        """Nothing is compiled for accelerators here. Raises BackendError (AOTC-E756)."""
        raise BackendError(
            Finding(
                code="AOTC-E756",
                where=where,
                expected=f"sizes of a profile, on {self.platform}",
                found="others: the bundled module is for processors",
                hint="call with sizes of a profile, or add these to `profiles` and build again",
            )
        )

    def share(self, array: Any, aval: Aval) -> Buffer:
        """A copy on the device: it has memory of its own."""
        return self.put(array, aval)


def library_of(package: str, file: str) -> Path:
    """A file of an installed package. Raises ImportError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"no package {package}")
    return Path(spec.origin).parent / file


def start_plugin(xla_client: Any, platform: str, library: str) -> None:
    """Load and initialize a plugin, unless jax has done so in this process."""
    if not xla_client.pjrt_plugin_loaded(platform):
        xla_client.load_pjrt_plugin_dynamically(platform, library)
    if not xla_client.pjrt_plugin_initialized(platform):
        xla_client.initialize_pjrt_plugin(platform)
