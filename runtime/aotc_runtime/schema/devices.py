"""What a bundle manifest says of devices: which accelerators a target is for, and over which mesh
of devices tensors are cut.

Parts of `aotc_runtime.schema.manifest`.

A mesh (docs/bundle-format.md, "Mesh and shardings") is an array of devices with named axes. A
sharding says for each axis of a tensor by which axes of the mesh it is cut, the first of them
varying slowest; axes of the mesh that it does not name hold copies.
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


DEVICES_MAX = 65536
"""More than any machine has; a mesh of more is a mistake or an attack."""

AxisName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]

type Sharding = tuple[tuple[AxisName, ...], ...]
"""For each axis of a tensor, the axes of the mesh that it is cut by; () if it is not cut at all."""


class MeshAxis(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """size: how many devices along it."""

    name: AxisName
    size: Annotated[int, Meta(ge=1, le=DEVICES_MAX)]


class Mesh(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """devices: the number of the device, among those of the process, at each place of the mesh, the
    last axis varying fastest.
    """

    axes: tuple[MeshAxis, ...]
    devices: tuple[Annotated[int, Meta(ge=0, le=INTEGER_MAX)], ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each axis, in their order."""
        return {axis.name: axis.size for axis in self.axes}
