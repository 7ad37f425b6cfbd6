"""A verified bundle in memory: weights in place, executables deserialized. Not callable yet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, Struct

from aotc_runtime.engines import engine_registry
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Executable, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.formats.safetensors_reader import numpy_dtype, tensor_views
from aotc_runtime.schema.bundle_manifest import (
    Argument,
    BundleManifest,
    Dimension,
    DType,
    EntryPoint,
    InputArgument,
    Mesh,
    ProfileRecord,
    Sharding,
    TensorSpec,
    WeightSet,
)
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.verification.verify_bundle import VerifiedBlob, VerifiedBundle


class Weight(Struct, frozen=True):
    """A tensor of a weights set, on the device."""

    buffer: Buffer
    aval: Aval


type Weights = Mapping[tuple[str, str], Weight]
"""By set and tensor."""


class ResidentExecutable(Struct, frozen=True):
    """One executable, ready to run.

    `arguments` has a device buffer for a bound weight, or the index of an input leaf. `direct` is
    the engine's fastest call; None where arguments are donated, left out or in another order.
    """

    device: Device
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


class ResidentEntryPoint(Struct, frozen=True):
    """An entry point with its executables on the target's device.

    `dimensions` are those of the bundle, by name, and `weights` all of its weights, on that device.
    """

    device: Device
    name: str
    spec: EntryPoint
    dimensions: Mapping[str, Dimension]
    profiles: tuple[ResidentProfile, ...]
    verified: VerifiedBundle
    weights: Weights


class ResidentBundle(Struct, frozen=True):
    """Everything is loaded and nothing has run; only `loaded_bundle.make_ready` makes it callable.

    `devices` are by platform, the target's first. `arrays` are views over the mapped weights, which
    the device buffers use in place.
    """

    verified: VerifiedBundle
    devices: Mapping[str, Device]
    entry_points: Mapping[str, ResidentEntryPoint]
    arrays: Mapping[tuple[str, str], Array]


def load_executables(
    devices: Mapping[str, Device], manifest: BundleManifest, blobs: Mapping[str, VerifiedBlob]
) -> dict[ExecutableKey, Executable]:
    """Deserialize every executable of a target; compiles nothing and runs nothing.

    `devices` are by platform, `blobs` the executables by digest. Raises BackendError (AOTC-E753),
    and ResourceError (AOTC-E555) where an engine was started with fewer devices than they run on.
    """
    device = devices[manifest.target.platform]
    mesh = _mesh(manifest)
    numbers = (0,) if mesh is None else mesh.devices
    if len(numbers) > device.device_count:
        from aotc_runtime.serving.serving_refusals import too_few_devices

        raise too_few_devices(manifest, device)
    executables: dict[ExecutableKey, Executable] = {}
    for platform, device in devices.items():
        stored: dict[ExecutableKey, Stored] = {}
        for name, spec in manifest.entry_points.items():
            for record in spec.profiles:
                if manifest.platform_of(record) == platform:
                    key, shapes = executable_key(name, record.sizes), record.output_shapes
                    if spec.out_of_profile:
                        from aotc_runtime.schema.fallback_policies import open_shapes

                        shapes = open_shapes(spec, spec.outputs, shapes)
                    outputs = _avals(device, spec.outputs, shapes, mesh)
                    stored[key] = Stored(blobs[record.executable.digest], outputs, key.label)
        calls = manifest.requires.custom_call_targets
        made = device.deserialize(tuple(stored.values()), numbers, calls)
        executables |= zip(stored, made, strict=True)
    return executables


def make_resident(
    verified: VerifiedBundle, executables: Mapping[ExecutableKey, Executable] | None = None
) -> ResidentBundle:
    """Map the weights and put them together with the executables; runs nothing.

    `executables` are the result of `load_executables` for this bundle, or None to call it here.
    Raises BundleFormatError (AOTC-E117: a tensor is not what the manifest says), BackendError.
    """
    manifest = verified.manifest
    devices = {platform: engine_registry.start(platform) for platform in manifest.platforms}
    if executables is None:
        executables = load_executables(devices, manifest, verified.blobs)
    arrays: dict[tuple[str, str], Array] = {}
    weights_on: dict[str, dict[tuple[str, str], Weight]] = {platform: {} for platform in devices}
    mesh = _mesh(manifest)
    for set_name, weights in manifest.weights.items():
        shardings = {tensor.name: tensor.sharding for tensor in weights.tensors}
        for name, array in weight_arrays(verified, set_name, weights).items():
            arrays[set_name, name] = array
            for platform, device in devices.items():
                aval = _aval(device, array.shape, array.dtype, shardings[name], mesh)
                weights_on[platform][set_name, name] = Weight(device.share(array, aval), aval)
    own = manifest.target.platform
    entry_points = {
        name: ResidentEntryPoint(
            devices[own],
            name,
            spec,
            manifest.dimensions,
            tuple(
                _profile(devices[on], key, executables[key], spec, record, weights_on[on], mesh)
                for record in spec.profiles
                for on in [manifest.platform_of(record)]
                for key in [executable_key(name, record.sizes)]
            ),
            verified,
            weights_on[own],
        )
        for name, spec in manifest.entry_points.items()
    }
    return ResidentBundle(verified, devices, entry_points, arrays)


def weight_arrays(bundle: VerifiedBundle, name: str, weights: WeightSet) -> dict[str, Array]:
    """Return the tensors of a weights set, which are exactly those that the manifest lists.

    Raises BundleFormatError: AOTC-E117 others, E131 to E133 no safetensors.
    """
    where = f"weights {name}"
    arrays: dict[str, Array] = {}
    found: list[tuple[str, DType, tuple[int, ...]]] = []
    for ref in weights.blobs:
        for tensor, (array, info) in tensor_views(bundle.blob(ref).data, where).items():
            arrays[tensor] = array
            found.append((tensor, info.dtype, info.shape))
    declared = [(tensor.name, tensor.dtype, tensor.shape) for tensor in weights.tensors]
    if found != declared:
        from aotc_runtime.serving.serving_refusals import other_tensors

        raise other_tensors(where, declared, found)
    return arrays


def _profile(
    device: Device,
    key: ExecutableKey,
    executable: Executable,
    spec: EntryPoint,
    record: ProfileRecord,
    weights: Weights,
    mesh: Mesh | None,
) -> ResidentProfile:
    inputs = _avals(device, spec.inputs, record.input_shapes, mesh)
    outputs = _avals(device, spec.outputs, record.output_shapes, mesh)
    arguments = bound_arguments(record.arguments, weights)
    where = key.label
    direct = None
    if mesh is None:
        direct = direct_call(device, executable, spec, arguments, inputs, outputs)
    else:
        from aotc_runtime.engines.device_features import check_tiles

        expected = [
            inputs[a.leaf] if isinstance(a, InputArgument) else weights[a.set, a.tensor].aval
            for a in record.arguments
        ]
        check_tiles(device.features.tiles(executable), expected, outputs, where)
    return ResidentProfile(
        device, where, executable, arguments, inputs, outputs, direct, key, record
    )


def bound_arguments(arguments: Sequence[Argument], weights: Weights) -> tuple[Buffer | int, ...]:
    """Return the buffers of bound weights, and the indices of the input leaves for the rest."""
    return tuple(
        each.leaf if isinstance(each, InputArgument) else weights[each.set, each.tensor].buffer
        for each in arguments
    )


def direct_call(
    device: Device,
    executable: Executable,
    spec: EntryPoint,
    arguments: Sequence[Buffer | int],
    inputs: Sequence[Aval],
    outputs: Sequence[Aval],
) -> Callable[..., list[Buffer]] | None:
    """Return the engine's fastest way to call the executable, if it has one for such arguments."""
    weights = [argument for argument in arguments if not isinstance(argument, int)]
    is_donating = any(parameter.donated for parameter in spec.parameters)
    behind = arguments[len(weights) :]
    in_order = all(isinstance(argument, int) for argument in behind)
    if not in_order or [*behind] != [*range(len(inputs))] or is_donating:
        return None
    return device.direct(executable, weights, inputs, outputs)


def _mesh(manifest: BundleManifest) -> Mesh | None:
    """Return the mesh, or None for a program on one device."""
    mesh = manifest.mesh
    return None if mesh is UNSET or len(mesh.devices) == 1 else mesh


def _avals(
    device: Device,
    tensors: Sequence[TensorSpec],
    shapes: Sequence[tuple[int, ...]],
    mesh: Mesh | None,
) -> tuple[Aval, ...]:
    return tuple(
        _aval(device, shape, numpy_dtype(tensor.dtype), tensor.sharding, mesh)
        for tensor, shape in zip(tensors, shapes, strict=True)
    )


def _aval(
    device: Device,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    sharding: Sharding,
    mesh: Mesh | None,
) -> Aval:
    if mesh is None:
        return Aval(shape, dtype)
    return Aval(shape, dtype, placement=device.features.placement(mesh, sharding, shape))
