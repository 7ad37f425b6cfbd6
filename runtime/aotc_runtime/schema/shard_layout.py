"""Shards of arrays by device of a mesh, and reports of meshes.

Imported only for bundles that have a mesh.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import UNSET

from aotc_runtime.schema.bundle_manifest import BundleManifest, Mesh, MeshAxis, Sharding

type Piece = tuple[tuple[int, int], ...]
"""A part of an array: for each axis where it begins and ends."""


def mesh_of(sizes: Mapping[str, int]) -> Mesh:
    """Return the mesh of these axes over the first devices in their order."""
    axes = tuple(MeshAxis(name=name, size=size) for name, size in sizes.items())
    return Mesh(axes=axes, devices=tuple(range(prod(sizes.values()))))


def misfits(sizes: Mapping[str, int], sharding: Sharding) -> Iterator[tuple[int, str]]:
    """Yield the errors of a sharding by itself: the axis of the tensor, and a text."""
    seen: set[str] = set()
    for index, names in enumerate(sharding):
        for name in names:
            if name not in sizes:
                yield index, f"no axis {name} of the mesh"
            elif name in seen:
                yield index, f"the axis {name} of the mesh a second time"
            seen.add(name)


def uneven_axis(sizes: Mapping[str, int], sharding: Sharding, shape: Sequence[int]) -> int | None:
    """Return the first axis that a sharding cannot divide evenly, or None.

    The sharding is valid, and has as many items as the shape has axes, or none.
    """
    for index, (names, size) in enumerate(zip(sharding, shape, strict=bool(sharding))):
        count = prod(sizes[name] for name in names)
        if size % count or (count > 1 and not size):
            return index
    return None


def piece_of(
    sizes: Mapping[str, int], sharding: Sharding, shape: Sequence[int], place: int
) -> Piece:
    """Return the shard of an array that the device at an index of the mesh holds."""
    if not sharding:
        return tuple((0, size) for size in shape)
    at: dict[str, int] = {}
    for name in reversed([*sizes]):
        place, at[name] = divmod(place, sizes[name])
    piece = []
    for names, size in zip(sharding, shape, strict=True):
        number, count = 0, 1
        for name in names:
            number = number * sizes[name] + at[name]
            count *= sizes[name]
        step = size // count
        piece.append((number * step, (number + 1) * step))
    return tuple(piece)


def pieces(mesh: Mesh, sharding: Sharding, shape: Sequence[int]) -> tuple[Piece, ...]:
    """Return the shard of each device of the mesh, by index."""
    sizes = mesh.sizes
    count = prod(sizes.values())
    return tuple(piece_of(sizes, sharding, shape, place) for place in range(count))


def text(sharding: Sharding) -> str:
    """Return a sharding for people: `data, -, model*pipe`."""
    return ", ".join("*".join(names) or "-" for names in sharding)


def mesh_report(manifest: BundleManifest) -> dict[str, Any] | None:
    """Return a JSON-able report of the mesh, or None for a single device.

    It has sizes by axis, the devices, and the shardings by owner and path.
    """
    if manifest.mesh is UNSET:
        return None
    shardings: dict[str, dict[str, str]] = {
        f"weights {name}": {t.name: text(t.sharding) for t in set_.tensors if t.sharding}
        for name, set_ in manifest.weights.items()
    }
    for name, spec in manifest.entry_points.items():
        for kind, tensors in (("inputs", spec.inputs), ("outputs", spec.outputs)):
            shardings[f"{name} {kind}"] = {
                tensor.path or "result": text(tensor.sharding)
                for tensor in tensors
                if tensor.sharding
            }
    return {
        "axes": manifest.mesh.sizes,
        "devices": list(manifest.mesh.devices),
        "shardings": {owner: cut for owner, cut in shardings.items() if cut},
    }
