"""Masks and lengths of dimensions that may be padded: inputs that the loader passes itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import EntryPoint, Pad
from aotc_runtime.schema.fallback_policies import masks_and_lengths, without_compiling
from aotc_runtime.schema.pytrees import leaves as leaf_indices
from aotc_runtime.serving.device_arrays import DeviceArray
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint
from aotc_runtime.serving.routing import padded_arrays

Array = np.ndarray[Any, Any]


class Mask(Struct, frozen=True):
    """A mask: its input leaf, its axes, and the dimensions whose real part it marks."""

    leaf: int
    axes: tuple[int | str, ...]
    dimensions: frozenset[str]

    def array(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Array:
        """Return the mask of a call with these sizes, in the shape of its profile."""
        return padded_arrays.mask(self.axes, shape, {name: sizes[name] for name in self.dimensions})


class Length(Struct, frozen=True):
    """A length: its input leaf, and the dimension whose real size it holds."""

    leaf: int
    dimension: str
    dtype: np.dtype[Any]

    def array(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Array:
        """Return the length of a call with these sizes."""
        return np.full(shape, sizes[self.dimension], self.dtype)


def masks_of(spec: EntryPoint) -> tuple[Mask | Length, ...]:
    """Return every mask and length that an entry point takes."""
    names = masks_and_lengths(spec)
    leaf_of = {p.name: next(leaf_indices(p.tree)) for p in spec.parameters if p.name in names}
    dimensions_of: dict[str, set[str]] = {}
    lengths: dict[str, str] = {}
    for dimension, policy in without_compiling(spec).items():
        if isinstance(policy, Pad) and policy.mask:
            dimensions_of.setdefault(policy.mask, set()).add(dimension)
        if isinstance(policy, Pad) and policy.length:
            lengths[policy.length] = dimension
    return (
        *(
            Mask(leaf_of[name], spec.inputs[leaf_of[name]].shape, frozenset(dimensions))
            for name, dimensions in dimensions_of.items()
        ),
        *(
            Length(leaf_of[name], dimension, numpy_dtype(spec.inputs[leaf_of[name]].dtype))
            for name, dimension in lengths.items()
        ),
    )


def on_device(
    device: Device,
    masks: Sequence[Mask | Length],
    shapes: Sequence[tuple[int, ...]],
    sizes: Mapping[str, int],
) -> list[tuple[int, DeviceArray]]:
    """Return masks and lengths for a call of exactly these sizes, by leaf."""
    found = []
    for mask in masks:
        array = mask.array(shapes[mask.leaf], sizes)
        aval = Aval(array.shape, array.dtype)
        found.append((mask.leaf, DeviceArray(device, device.put(array, aval), aval)))
    return found


def masks_by_profile(resident: ResidentEntryPoint) -> dict[int, list[tuple[int, DeviceArray]]]:
    """Return masks and lengths for calls of exactly a profile's sizes, by its number."""
    masks = masks_of(resident.spec)
    return {
        number: on_device(profile.device, masks, profile.record.input_shapes, profile.record.sizes)
        for number, profile in enumerate(resident.profiles)
    }
