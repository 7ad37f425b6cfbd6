"""Whether a mesh and its shardings agree with the rest of a manifest (docs/bundle-format.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, Sharding
from aotc_runtime.schema.shard_layout import misfits, text, untiled

type Sharded = tuple[str, Sharding, Sequence[Sequence[int]]]
"""A tensor: where it stands, how it is cut, the shapes that it has."""


def check_mesh(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Every contradiction of meshes and shardings (AOTC-E118)."""
    if manifest.mesh is UNSET:
        for place, sharding, _ in _tensors(manifest, where):
            if sharding:
                yield _finding(place, "shardings of a bundle with a mesh", text(sharding))
        return
    mesh = manifest.mesh
    sizes = mesh.sizes
    if not mesh.axes or len(sizes) < len(mesh.axes):
        found = ", ".join(axis.name for axis in mesh.axes) or "none"
        yield _finding(f"{where} mesh", "axes with names, each once", found)
        return
    count = prod(sizes.values())
    if sorted(mesh.devices) != list(range(len(mesh.devices))) or count != len(mesh.devices):
        found = ", ".join(map(str, mesh.devices[:16])) or "none"
        yield _finding(f"{where} mesh devices", f"each of 0 to {count - 1} once", found)
        return
    if manifest.requires.device is UNSET and list(mesh.devices) != sorted(mesh.devices):
        # XLA's collectives on a processor would wait for each other until they end the process.
        found = ", ".join(map(str, mesh.devices[:16]))
        yield _finding(f"{where} mesh devices", "those of a processor in their order", found)
    if not count == manifest.requires.devices == manifest.target.devices:
        found = f"{count}, {manifest.requires.devices} and {manifest.target.devices}"
        yield _finding(f"{where} mesh", "as many devices as the target and requires have", found)
    for place, sharding, shapes in _tensors(manifest, where):
        yield from _check_sharding(place, sharding, shapes, sizes)
    for name, entry_point in manifest.entry_points.items():
        if entry_point.symbolic is not UNSET:
            expected = "nothing to compile for calls, in a bundle with a mesh"
            yield _finding(f"{where} {name}", expected, "a symbolic module")


def _check_sharding(
    where: str, sharding: Sharding, shapes: Sequence[Sequence[int]], sizes: dict[str, int]
) -> Iterator[Finding]:
    if not sharding:
        return
    if not any(sharding):
        yield _finding(where, "no sharding for a tensor that is not cut", text(sharding))
        return
    wrong = [*misfits(sizes, sharding)]
    for index, problem in wrong:
        yield _finding(where, "axes of the mesh, each once", f"axis {index}: {problem}")
    for shape in () if wrong else shapes:
        if len(shape) != len(sharding):
            yield _finding(where, f"a sharding for {len(shape)} axes", text(sharding))
        elif (axis := untiled(sizes, sharding, shape)) is not None:
            into = prod(sizes[name] for name in sharding[axis])
            yield _finding(where, f"an axis that {into} devices divide", f"{list(shape)}")


def _tensors(manifest: BundleManifest, where: str) -> Iterator[Sharded]:
    for name, set_ in manifest.weights.items():
        for tensor in set_.tensors:
            yield f"{where} {name} {tensor.name}", tensor.sharding, [tensor.shape]
    for name, entry_point in manifest.entry_points.items():
        profiles = entry_point.profiles
        for index, spec in enumerate(entry_point.inputs):
            shapes = [p.input_shapes[index] for p in profiles if index < len(p.input_shapes)]
            yield f"{where} {name} {spec.path}", spec.sharding, shapes
        for index, spec in enumerate(entry_point.outputs):
            shapes = [p.output_shapes[index] for p in profiles if index < len(p.output_shapes)]
            yield f"{where} {name} {spec.path or 'result'}", spec.sharding, shapes


def _finding(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E118", where, found, expected=expected)
