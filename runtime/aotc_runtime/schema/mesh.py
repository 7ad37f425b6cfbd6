"""The mesh of a sharded program, and how tensors are cut over it.

docs/bundle-format.md, "Mesh and shardings". A mesh is an array of devices with named axes. A
sharding says for each axis of a tensor by which axes of the mesh it is cut, the first of them
varying slowest; axes of the mesh that it does not name hold copies.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aotc_runtime.schema.tree import INTEGER_MAX

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
