"""What a bundle manifest says of accelerators: compiled for which, needed from a host, known how.

Parts of `aotc_runtime.schema.manifest`. A CPU target has none of them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aotc_runtime.schema.tree import INTEGER_MAX

Bytes = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Capability = Annotated[str, Meta(pattern=r"\A[0-9]{1,2}\.[0-9]\Z")]
"""A CUDA compute capability, "9.0"."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the manifest: immutable, without unknown fields."""


class CudaDevice(_Part, frozen=True, tag="cuda", tag_field="family", omit_defaults=True):
    """An NVIDIA GPU.

    description: name of the description that was compiled for.  changes: fields of it that the
    target file sets to other values.  kinds: product names of the devices that may run the code, as
    the driver states them.  text: the description, if it is not the one in the CUDA plugin.
    """

    description: str
    compute_capability: Capability
    kinds: tuple[str, ...]
    changes: dict[str, str] = {}
    text: str = ""


class TpuDevice(_Part, frozen=True, tag="tpu", tag_field="family"):
    """Chips of a TPU slice. topology: as libtpu names it, "v5e:2x2".  kinds: as jax names them."""

    topology: str
    kinds: tuple[str, ...]


class RocmDevice(_Part, frozen=True, tag="rocm", tag_field="family"):
    """An AMD GPU. architecture: LLVM's name for its instructions, "gfx942"."""

    architecture: str
    kinds: tuple[str, ...]


type TargetDevice = CudaDevice | TpuDevice | RocmDevice


class DeviceRequirements(_Part, frozen=True, omit_defaults=True):
    """What a host's accelerators must be.

    kinds: one of these product names.  memory_bytes: free on each device.  plugin: distribution of
    the PJRT plugin, or of another engine; accepts_plugin: its versions that the evidence covers.
    compute_capability: of CUDA devices.  driver: the CUDA version that the driver must support at
    least, "13.0".
    """

    kinds: tuple[str, ...]
    memory_bytes: Bytes
    plugin: str
    accepts_plugin: tuple[str, ...]
    compute_capability: Capability | None = None
    driver: str | None = None


class Compilation(_Part, frozen=True):
    """How executables for an accelerator were compiled.

    without_device: from a description, on a machine that may have none.  left_out: what the
    compiler then cannot do, and took defaults for, such as "autotuning".  claims: versions that the
    description states and the executables repeat; XLA refuses to load them where less is installed.
    """

    without_device: bool
    left_out: tuple[str, ...]
    claims: dict[str, str]
