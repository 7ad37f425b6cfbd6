"""A verified bundle in memory: weights in place, executables deserialized. Not callable yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, Struct

from aotc_runtime.errors import Finding, ResourceError
from aotc_runtime.schema.labels import ExecutableKey, executable_key
from aotc_runtime.schema.manifest import (
    Argument,
    BundleManifest,
    Dimension,
    DType,
    EntryPoint,
    InputArgument,
    ProfileRecord,
    TensorSpec,
    WeightArgument,
)
from aotc_runtime.schema.mesh import Mesh, Sharding
from aotc_runtime.schema.proof import VerifiedBlob, VerifiedBundle
from aotc_runtime.serving.dtypes import numpy_dtype
from aotc_runtime.serving.weights import weight_arrays
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Aval, Buffer, Executable, Stored

Array = np.ndarray[Any, Any]


class ResidentExecutable(Struct, frozen=True):
    """One executable, ready to run.

    arguments: a device buffer for a bound weight, or the index of an input leaf.  direct: runs in
    jaxlib's compiled call path; None where arguments are donated, left out or in another order.
    """

    label: str
    executable: Executable
    arguments: tuple[Buffer | int, ...]
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    direct: Callable[..., list[Buffer]] | None


class ResidentProfile(ResidentExecutable, frozen=True):
    """The executable of a profile."""

    key: ExecutableKey
    record: ProfileRecord


class ResidentSymbolic(Struct, frozen=True):
    """A module that can be compiled for more sizes. arguments: as for an executable. options:
    XLA's, that the target was compiled with. cheapest: the profile whose fixture shows whether
    code compiled on this host computes the same.
    """

    module: VerifiedBlob
    arguments: tuple[Buffer | int, ...]
    options: Mapping[str, str]
    cheapest: ProfileRecord
    fixture: VerifiedBlob


class ResidentEntryPoint(Struct, frozen=True):
    """An entry point with its executables. dimensions: those of the bundle, by name."""

    name: str
    spec: EntryPoint
    dimensions: Mapping[str, Dimension]
    profiles: tuple[ResidentProfile, ...]
    symbolic: ResidentSymbolic | None


class ResidentBundle(Struct, frozen=True):
    """Everything is loaded and nothing has run; only `readiness.make_ready` makes it callable.

    arrays: views over the mapped weights, which the device buffers use in place.
    """

    verified: VerifiedBundle
    entry_points: Mapping[str, ResidentEntryPoint]
    arrays: Mapping[tuple[str, str], Array]
    buffers: Mapping[tuple[str, str], Buffer]


def load_executables(
    manifest: BundleManifest, blobs: Mapping[str, VerifiedBlob]
) -> dict[ExecutableKey, Executable]:
    """Deserialize every executable of a target; compiles nothing and runs nothing.

    blobs: the executables by digest. Raises BackendError (AOTC-E753, E758), and ResourceError
    (AOTC-E555) where XLA was started with fewer devices than they run on.
    """
    device = pjrt.serve(manifest.target.platform)
    device.register_custom_calls(manifest.requires.custom_call_targets)
    mesh = _mesh(manifest)
    numbers = (0,) if mesh is None else mesh.devices
    if len(numbers) > device.device_count:
        raise _too_few_devices(manifest, device.device_count)
    stored = {
        key: Stored(blobs[record.executable.digest], _outputs(spec, record, mesh), key.label)
        for name, spec in manifest.entry_points.items()
        for record in spec.profiles
        for key in [executable_key(name, record.sizes)]
    }
    executables = device.deserialize(tuple(stored.values()), numbers)
    return dict(zip(stored, executables, strict=True))


def _too_few_devices(manifest: BundleManifest, count: int) -> ResourceError:
    return ResourceError(
        Finding(
            code="AOTC-E555",
            where=f"{manifest.name} {manifest.version} for {manifest.target.name}",
            expected=f"{manifest.requires.devices} devices",
            found=f"XLA was started with {count}",
            hint="pass `devices` to the first load of the process",
        )
    )


def make_resident(
    verified: VerifiedBundle, executables: Mapping[ExecutableKey, Executable] | None = None
) -> ResidentBundle:
    """Map the weights and put them together with the executables; runs nothing.

    executables: what `load_executables` made of this bundle's, or None to do it here.
    Raises BundleFormatError (AOTC-E117: a tensor is not what the manifest says), BackendError.
    """
    device = pjrt.device()
    manifest = verified.manifest
    if executables is None:
        executables = load_executables(manifest, verified.blobs)
    arrays: dict[tuple[str, str], Array] = {}
    buffers: dict[tuple[str, str], Buffer] = {}
    mesh = _mesh(manifest)
    for set_name, weights in manifest.weights.items():
        shardings = {tensor.name: tensor.sharding for tensor in weights.tensors}
        for name, array in weight_arrays(verified, set_name, weights).items():
            arrays[set_name, name] = array
            aval = _aval(array.shape, array.dtype, shardings[name], mesh)
            buffers[set_name, name] = device.share(array, aval)
    entry_points = {
        name: ResidentEntryPoint(
            name,
            spec,
            manifest.dimensions,
            tuple(
                _profile(key, executables[key], spec, record, buffers, mesh)
                for record in spec.profiles
                for key in [executable_key(name, record.sizes)]
            ),
            _symbolic(verified, spec, buffers),
        )
        for name, spec in manifest.entry_points.items()
    }
    return ResidentBundle(verified, entry_points, arrays, buffers)


def _profile(
    key: ExecutableKey,
    executable: Executable,
    spec: EntryPoint,
    record: ProfileRecord,
    buffers: Mapping[tuple[str, str], Buffer],
    mesh: Mesh | None,
) -> ResidentProfile:
    inputs = _spread(spec.inputs, record.input_shapes, mesh)
    outputs = _outputs(spec, record, mesh)
    arguments = _arguments(record.arguments, buffers)
    where = key.label
    direct = None
    if mesh is None:
        direct = direct_call(executable, spec, arguments, inputs, outputs)
    else:
        from aotc_runtime.serving.sharded import check_tiles

        check_tiles(executable, arguments, inputs, outputs, where)
    return ResidentProfile(where, executable, arguments, inputs, outputs, direct, key, record)


def _arguments(
    arguments: Sequence[Argument], buffers: Mapping[tuple[str, str], Buffer]
) -> tuple[Buffer | int, ...]:
    found: list[Buffer | int] = []
    for argument in arguments:
        match argument:
            case InputArgument(leaf=leaf):
                found.append(leaf)
            case WeightArgument(set=set_name, tensor=tensor):
                found.append(buffers[set_name, tensor])
    return tuple(found)


def _symbolic(
    verified: VerifiedBundle, spec: EntryPoint, buffers: Mapping[tuple[str, str], Buffer]
) -> ResidentSymbolic | None:
    if spec.symbolic is UNSET:
        return None
    cheapest = min(spec.profiles, key=lambda profile: profile.cost.flops)
    return ResidentSymbolic(
        verified.blob(spec.symbolic.module),
        _arguments(spec.symbolic.arguments, buffers),
        verified.manifest.target.options,
        cheapest,
        verified.blob(cheapest.fixture),
    )


def direct_call(
    executable: Executable,
    spec: EntryPoint,
    arguments: Sequence[Buffer | int],
    inputs: Sequence[Aval],
    outputs: Sequence[Aval],
) -> Callable[..., list[Buffer]] | None:
    """The executable in jaxlib's compiled call path, if it can run there."""
    weights = [argument for argument in arguments if not isinstance(argument, int)]
    is_donating = any(parameter.donated for parameter in spec.parameters)
    is_packed = any(pjrt.is_packed_in_xla(aval.dtype) for aval in inputs)
    behind = arguments[len(weights) :]
    in_order = all(isinstance(argument, int) for argument in behind)
    if not in_order or [*behind] != [*range(len(inputs))] or is_donating or is_packed:
        return None
    device = pjrt.device()
    if device.platform != "cpu":
        return None  # it uses inputs in place, which no accelerator does
    return device.compiled_call(executable, weights, inputs, outputs)


def _outputs(spec: EntryPoint, record: ProfileRecord, mesh: Mesh | None) -> tuple[Aval, ...]:
    return _spread(spec.outputs, record.output_shapes, mesh)


def _mesh(manifest: BundleManifest) -> Mesh | None:
    """The mesh, or None for a program on one device."""
    mesh = manifest.mesh
    return None if mesh is UNSET or len(mesh.devices) == 1 else mesh


def _spread(
    tensors: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]], mesh: Mesh | None
) -> tuple[Aval, ...]:
    return tuple(
        _aval(shape, numpy_dtype(tensor.dtype), tensor.sharding, mesh)
        for tensor, shape in zip(tensors, shapes, strict=True)
    )


def _aval(
    shape: tuple[int, ...], dtype: np.dtype[Any], sharding: Sharding, mesh: Mesh | None
) -> Aval:
    if mesh is None:
        return Aval(shape, dtype)
    return Aval(shape, dtype, placement=pjrt.device().placement(mesh, sharding, shape))


def avals(dtypes: Sequence[DType], shapes: Sequence[tuple[int, ...]]) -> tuple[Aval, ...]:
    """Shapes and dtypes as jaxlib asks for them."""
    return tuple(
        Aval(shape, numpy_dtype(dtype)) for dtype, shape in zip(dtypes, shapes, strict=True)
    )
