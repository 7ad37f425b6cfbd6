"""A verified bundle in memory: weights in place, executables deserialized. Not callable yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from aotc_runtime.schema.labels import label
from aotc_runtime.schema.manifest import (
    EntryPoint,
    InputArgument,
    ProfileRecord,
    WeightArgument,
)
from aotc_runtime.schema.proof import VerifiedBundle
from aotc_runtime.serving.dtypes import numpy_dtype
from aotc_runtime.serving.weights import weight_arrays
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Aval, Buffer, Executable

Array = np.ndarray[Any, Any]


class ResidentProfile(Struct, frozen=True):
    """One executable, ready to run.

    arguments: a device buffer for a bound weight, or the index of an input leaf.  direct: runs in
    jaxlib's compiled call path; None where arguments are donated, left out or in another order.
    """

    label: str
    record: ProfileRecord
    executable: Executable
    arguments: tuple[Buffer | int, ...]
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    direct: Callable[..., list[Buffer]] | None


class ResidentEntryPoint(Struct, frozen=True):
    """An entry point with its executables."""

    name: str
    spec: EntryPoint
    profiles: tuple[ResidentProfile, ...]


class ResidentBundle(Struct, frozen=True):
    """Everything is loaded and nothing has run; only `readiness.make_ready` makes it callable.

    arrays: views over the mapped weights, which the device buffers use in place.
    """

    verified: VerifiedBundle
    entry_points: Mapping[str, ResidentEntryPoint]
    arrays: Mapping[tuple[str, str], Array]
    buffers: Mapping[tuple[str, str], Buffer]


def make_resident(verified: VerifiedBundle) -> ResidentBundle:
    """Map the weights and deserialize the executables; compiles nothing and runs nothing.

    Raises BundleFormatError (AOTC-E117: a tensor is not what the manifest says), BackendError.
    """
    device = pjrt.device()
    manifest = verified.manifest
    device.register_custom_calls(manifest.requires.custom_call_targets)
    arrays: dict[tuple[str, str], Array] = {}
    buffers: dict[tuple[str, str], Buffer] = {}
    for set_name, weights in manifest.weights.items():
        for name, array in weight_arrays(verified, set_name, weights).items():
            arrays[set_name, name] = array
            buffers[set_name, name] = device.share(array, Aval(array.shape, array.dtype))
    entry_points = {
        name: ResidentEntryPoint(
            name,
            spec,
            tuple(
                _profile(device, verified, name, spec, record, buffers) for record in spec.profiles
            ),
        )
        for name, spec in manifest.entry_points.items()
    }
    return ResidentBundle(verified, entry_points, arrays, buffers)


def _profile(
    device: pjrt.Device,
    verified: VerifiedBundle,
    name: str,
    spec: EntryPoint,
    record: ProfileRecord,
    buffers: Mapping[tuple[str, str], Buffer],
) -> ResidentProfile:
    where = label(name, record.sizes)
    inputs = _avals([tensor.dtype for tensor in spec.inputs], record.input_shapes)
    outputs = _avals([tensor.dtype for tensor in spec.outputs], record.output_shapes)
    arguments: list[Buffer | int] = []
    for argument in record.arguments:
        match argument:
            case InputArgument(leaf=leaf):
                arguments.append(leaf)
            case WeightArgument(set=set_name, tensor=tensor):
                arguments.append(buffers[set_name, tensor])
    executable = device.deserialize(verified.blob(record.executable), outputs, where)
    weights = [argument for argument in arguments if not isinstance(argument, int)]
    direct = None
    is_donating = any(parameter.donated for parameter in spec.parameters)
    is_packed = any(pjrt.is_packed_in_xla(aval.dtype) for aval in inputs)
    if arguments == [*weights, *range(len(inputs))] and not is_donating and not is_packed:
        direct = device.compiled_call(executable, weights, inputs, outputs)
    return ResidentProfile(where, record, executable, tuple(arguments), inputs, outputs, direct)


def _avals(dtypes: list[Any], shapes: tuple[tuple[int, ...], ...]) -> tuple[Aval, ...]:
    return tuple(
        Aval(shape, numpy_dtype(dtype)) for dtype, shape in zip(dtypes, shapes, strict=True)
    )
