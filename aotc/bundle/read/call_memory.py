"""Memory that calls of an executable take, and its comparison with a target's limit."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from msgspec import UNSET, UnsetType

from aotc.base.errors import finding
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.safetensors_reader import ALIGNMENT, numpy_dtype
from aotc_runtime.schema.bundle_manifest import (
    BundleManifest,
    DType,
    Memory,
    Mesh,
    ProfileRecord,
    Sharding,
    TensorSpec,
    WeightSet,
    WeightTensor,
)
from aotc_runtime.schema.manifest_labels import label


def call_bytes(
    profile: ProfileRecord, inputs: Sequence[TensorSpec], mesh: Mesh | UnsetType = UNSET
) -> int:
    """Return the bytes that one call allocates on each device.

    These are copies of its inputs (of the device's shards of them), temporaries, and outputs that
    do not reuse a donated input. Memory that libraries take while they multiply or convolve is not
    included: XLA does not know it (docs/contributing/toolchain-notes.md).

    The inputs are counted here, not taken from XLA's argument_bytes: those include the bound
    weights, which all executables share, and omit inputs that the executable never reads.
    """
    input_bytes = sum(
        piece_bytes(shape, spec.dtype, spec.sharding, mesh)
        for spec, shape in zip(inputs, profile.input_shapes, strict=True)
    )
    memory = profile.memory
    return input_bytes + memory.temp_bytes + memory.output_bytes - memory.alias_bytes


def piece_bytes(
    shape: Sequence[int], dtype: DType, sharding: Sharding, mesh: Mesh | UnsetType
) -> int:
    """Return the bytes of an array that one device holds."""
    count = 1
    if mesh is not UNSET:
        sizes = mesh.sizes
        count = prod(sizes[name] for names in sharding for name in names)
    return prod(shape) * numpy_dtype(dtype).itemsize // count


def device_weight_bytes(weights: Mapping[str, WeightSet], mesh: Mesh | UnsetType = UNSET) -> int:
    """Return the bytes of the weights that one accelerator holds."""
    return sum(
        piece_bytes(tensor.shape, tensor.dtype, tensor.sharding, mesh)
        for set_ in weights.values()
        for tensor in set_.tensors
    )


def host_weight_bytes(weights: Mapping[str, WeightSet], mesh: Mesh | UnsetType = UNSET) -> int:
    """Return the bytes of the weights in a process.

    All CPU devices use the mapped blobs in place; shards that are not contiguous in the blob, or
    not aligned as XLA needs it, are copied.
    """
    every = [tensor for set_ in weights.values() for tensor in set_.tensors]
    copied = [tensor for tensor in every if tensor.sharding and not _is_in_place(tensor, mesh)]
    blobs = sum(ref.size for set_ in weights.values() for ref in set_.blobs)
    return blobs + sum(piece_bytes(t.shape, t.dtype, (), mesh) for t in copied)


def _is_in_place(tensor: WeightTensor, mesh: Mesh | UnsetType) -> bool:
    whole = piece_bytes(tensor.shape, tensor.dtype, (), mesh)
    piece = piece_bytes(tensor.shape, tensor.dtype, tensor.sharding, mesh)
    return not any(tensor.sharding[1:]) and whole % ALIGNMENT == piece % ALIGNMENT == 0


def total_bytes(memory: Memory) -> int:
    """Return the bytes that XLA reports for a running executable.

    They are arguments (bound weights included), results, temporaries and code.
    """
    results = memory.output_bytes - memory.alias_bytes
    return memory.argument_bytes + results + memory.temp_bytes + memory.code_bytes


def over_limit(manifest: BundleManifest, limit: int, where: str) -> Iterator[Finding]:
    """Yield AOTC-E973 for each profile that needs more than `limit` bytes with all weights.

    The need is XLA's analysis; the loader requires the largest of a host (`requires.memory_bytes`).
    """
    weights = host_weight_bytes(manifest.weights, manifest.mesh)
    for name, entry_point in manifest.entry_points.items():
        for profile in entry_point.profiles:
            of_call = call_bytes(profile, entry_point.inputs, manifest.mesh)
            of_call *= manifest.requires.devices
            if weights + of_call > limit:
                yield finding(
                    "AOTC-E973",
                    where,
                    f"{label(name, profile.sizes)} needs {weights + of_call}: {weights} of "
                    f"weights, {of_call} for a call, {profile.memory.temp_bytes} of them temporary",
                    expected=f"at most {limit} bytes",
                )
