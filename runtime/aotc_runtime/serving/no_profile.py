"""Why a call's shapes have no executable. AOTC-E611: the profiles do not serve them; AOTC-E612: no
profile ever could.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc_runtime.errors import Finding, ShapeError
from aotc_runtime.schema.labels import data_text, policies_of, sizes_text
from aotc_runtime.schema.manifest import EntryPoint, OutOfProfilePolicy, TensorSpec

Shape = tuple[int, ...]


def no_profile(
    name: str, spec: EntryPoint, shapes: Sequence[Shape], known: Sequence[tuple[Shape, ...]]
) -> ShapeError:
    """The error for shapes of all input leaves that are not among the known ones.

    known: the shapes of the input leaves in each profile.
    """
    findings = [
        finding
        for index, (tensor, shape) in enumerate(zip(spec.inputs, shapes, strict=True))
        if (finding := _impossible(name, tensor, shape, {shapes[index] for shapes in known}))
    ]
    if findings:
        return ShapeError(*findings)
    sizes = _sizes(spec.inputs, shapes)
    torn = {dimension: users for dimension, users in sizes.items() if len(set(users.values())) > 1}
    if torn:
        return ShapeError(*(_disagreement(name, d, users) for d, users in torn.items()))
    return ShapeError(_not_compiled(name, spec, shapes, sizes))


def _impossible(
    name: str, tensor: TensorSpec, shape: Shape, compiled: set[Shape]
) -> Finding | None:
    """Another number of axes, or another size where the program has a fixed one."""
    where = f"{name} {tensor.path}"
    found = f"{tensor.dtype.value}{list(shape)}"
    if len(shape) != len(tensor.shape):
        axes = len(tensor.shape)
        hint = f"pass an array with {axes} {'axis' if axes == 1 else 'axes'}"
        return Finding("AOTC-E612", where, data_text(tensor), found, hint)
    if shape in compiled:
        return None
    for axis, (wanted, size) in enumerate(zip(tensor.shape, shape, strict=True)):
        if isinstance(wanted, int) and wanted != size:
            hint = f"axis {axis} has to be {wanted}: the program was captured so"
            return Finding("AOTC-E612", where, data_text(tensor), found, hint)
    return None


def _sizes(tensors: Sequence[TensorSpec], shapes: Sequence[Shape]) -> dict[str, dict[str, int]]:
    """The size that each input gives to each dimension it has as an axis."""
    sizes: dict[str, dict[str, int]] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for wanted, size in zip(tensor.shape, shape, strict=True):
            if isinstance(wanted, str) and wanted.isidentifier():
                sizes.setdefault(wanted, {}).setdefault(tensor.path, size)
    return sizes


def _disagreement(name: str, dimension: str, users: Mapping[str, int]) -> Finding:
    return Finding(
        code="AOTC-E612",
        where=f"{name} {dimension}",
        expected=f"inputs that agree on {dimension}",
        found=", ".join(f"{size} in {path}" for path, size in users.items()),
        hint="pass inputs that belong together",
    )


def _not_compiled(
    name: str, spec: EntryPoint, shapes: Sequence[Shape], sizes: Mapping[str, Mapping[str, int]]
) -> Finding:
    policies = ", ".join(f"{policy.value} in {d}" for d, policy in policies_of(spec).items())
    profiles = "; ".join(sizes_text(profile.sizes) or "fixed shapes" for profile in spec.profiles)
    asked = sizes_text({d: next(iter(users.values())) for d, users in sizes.items()})
    given = ", ".join(
        f"{tensor.path} {tensor.dtype.value}{list(shape)}"
        for tensor, shape in zip(spec.inputs, shapes, strict=True)
        if any(isinstance(axis, str) for axis in tensor.shape)
    )
    return Finding(
        code="AOTC-E611",
        where=name,
        expected=f"one of the profiles {profiles}; calls outside of them "
        + (policies or OutOfProfilePolicy.FAIL.value),
        found=f"{asked} ({given})" if asked else given,
        hint="call with a profile's sizes, or add this one to `profiles` and build again",
    )
