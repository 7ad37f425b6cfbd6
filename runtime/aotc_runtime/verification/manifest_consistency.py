"""Consistency of a bundle manifest, so that later stages need no checks.

The types say what each field may hold; this says what they may hold together: indices that point
somewhere, one shape per leaf, names that Python accepts.
"""

import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from aotc_runtime.base import limits
from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema import pytrees
from aotc_runtime.schema.bundle_manifest import (
    XLA,
    Argument,
    BundleManifest,
    Dimension,
    EntryPoint,
    Parameter,
    ParameterKind,
    ProfileRecord,
    Range,
    TensorSpec,
    WeightArgument,
    engine_name,
)


def check_consistency(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Yield every contradiction in a manifest (AOTC-E118)."""
    weights = {
        (name, tensor.name) for name, set_ in manifest.weights.items() for tensor in set_.tensors
    }
    for name, set_ in manifest.weights.items():
        if not set_.blobs or _repeats([ref.digest for ref in set_.blobs]):
            yield _finding(f"{where} {name}", "one or more blobs, each once", f"{len(set_.blobs)}")
        if _repeats([tensor.name for tensor in set_.tensors]):
            yield _finding(f"{where} {name}", "each tensor once", "a duplicate tensor")
        if any(tensor.packed for tensor in set_.tensors):
            yield from _rare().check_packed(set_, manifest.format_version, f"{where} {name}")
    yield from _check_device(manifest, where)
    if _is_mixed(manifest):
        yield from _rare().check_mixed(manifest, where)
    if _is_sharded(manifest):
        yield from _rare().check_mesh(manifest, where)
    if manifest.assets is not UNSET:
        yield from _rare().check_assets(manifest, where)
    if not manifest.entry_points:
        yield _finding(where, "at least one entry point", "none")
    for name, entry_point in manifest.entry_points.items():
        place = f"{where} {name}"
        roots = [parameter.tree for parameter in entry_point.parameters]
        if any(
            pytrees.is_deeper(root, limits.TREE_DEPTH_MAX) for root in (*roots, entry_point.result)
        ):
            expected = f"trees of at most {limits.TREE_DEPTH_MAX} levels"
            yield _finding(place, expected, "a deeper tree")
            continue
        yield from _check_trees(entry_point, place)
        if any(spec.key_impl for spec in (*entry_point.inputs, *entry_point.outputs)):
            yield from _rare().check_keys(entry_point, place)
        yield from _check_parameters(entry_point.parameters, place)
        if not entry_point.profiles:
            yield _finding(place, "at least one profile", "none")
        if len({profile.input_shapes for profile in entry_point.profiles}) < len(
            entry_point.profiles
        ):
            yield _finding(place, "profiles with different input shapes", "equal profiles")
        for index, profile in enumerate(entry_point.profiles):
            yield from _check_profile(entry_point, profile, weights, f"{place} profile {index}")
        if entry_point.symbolic is not UNSET:
            arguments = entry_point.symbolic.arguments
            yield from _check_arguments(arguments, entry_point, weights, f"{place} symbolic")
        if entry_point.evaluations is not UNSET:
            yield from _rare().check_evaluations(entry_point.evaluations, place)
        if any(profile.precision is not UNSET for profile in entry_point.profiles):
            yield from _rare().check_precisions(entry_point.profiles, manifest, place)
        if any(isinstance(policy, Range) for policy in entry_point.out_of_profile.values()):
            yield from _rare().check_range(entry_point, manifest, place)
        yield from check_shapes(entry_point, manifest.dimensions, place)


def _rare() -> Any:
    """Return the checks of what few manifests have, imported for the first that has it."""
    from aotc_runtime.verification import rare_consistency

    return rare_consistency


def _is_sharded(manifest: BundleManifest) -> bool:
    tensors = (tensor for set_ in manifest.weights.values() for tensor in set_.tensors)
    specs = (spec for e in manifest.entry_points.values() for spec in (*e.inputs, *e.outputs))
    cut = (*(tensor.sharding for tensor in tensors), *(spec.sharding for spec in specs))
    return manifest.mesh is not UNSET or any(cut)


def _is_mixed(manifest: BundleManifest) -> bool:
    every = (profile for each in manifest.entry_points.values() for profile in each.profiles)
    stated = (manifest.requires.engines, *(profile.platform for profile in every))
    return any(each is not UNSET for each in stated)


def _check_device(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    target, requires = manifest.target, manifest.requires
    if engine_name(target) != XLA:
        yield from _rare().check_engine(manifest, where)
        return
    family = "cpu" if target.device is UNSET else target.device.__struct_config__.tag
    if not target.platform == requires.platform == family:
        found = f"{target.platform}, {requires.platform} and {family}"
        yield _finding(f"{where} target", "one platform", found)
    if (target.device is UNSET) != (requires.device is UNSET):
        yield _finding(f"{where} requires", "requirements of the target's device", "none")


def _check_trees(entry_point: EntryPoint, where: str) -> Iterator[Finding]:
    roots = [parameter.tree for parameter in entry_point.parameters]
    numbered = (
        (
            "inputs",
            [index for root in roots for index in pytrees.leaves(root)],
            len(entry_point.inputs),
        ),
        ("outputs", list(pytrees.leaves(entry_point.result)), len(entry_point.outputs)),
    )
    for what, found, wanted in numbered:
        if found != list(range(wanted)):
            yield _finding(f"{where} {what}", f"leaves 0 to {wanted - 1} in order", str(found))
    for root in (*roots, entry_point.result):
        if _has_names(root):
            yield from _rare().check_fields(root, where)


def _has_names(tree: pytrees.Tree) -> bool:
    """Return whether a tree has nodes whose children have names or numbers of their own."""
    named = isinstance(tree, pytrees.NamedTupleNode | pytrees.RecordNode | pytrees.IntDictNode)
    return named or any(map(_has_names, pytrees.children(tree)))


def _check_parameters(parameters: Sequence[Parameter], where: str) -> Iterator[Finding]:
    names = [parameter.name for parameter in parameters]
    order = list(ParameterKind)
    kinds = [order.index(parameter.kind) for parameter in parameters]
    if not all(map(_is_name, names)) or _repeats(names) or kinds != sorted(kinds):
        yield _finding(where, "parameters of a Python function", ", ".join(names))


def _check_profile(
    entry_point: EntryPoint, profile: ProfileRecord, weights: set[tuple[str, str]], where: str
) -> Iterator[Finding]:
    inputs, outputs = len(entry_point.inputs), len(entry_point.outputs)
    shapes = (len(profile.input_shapes), len(profile.output_shapes))
    if shapes != (inputs, outputs):
        expected = f"shapes of {inputs} inputs and {outputs} outputs"
        yield _finding(where, expected, f"{shapes[0]} and {shapes[1]}")
    yield from _check_arguments(profile.arguments, entry_point, weights, where)


def _check_arguments(
    arguments: Sequence[Argument],
    entry_point: EntryPoint,
    weights: set[tuple[str, str]],
    where: str,
) -> Iterator[Finding]:
    inputs = len(entry_point.inputs)
    for argument in arguments:
        if isinstance(argument, WeightArgument):
            if (argument.set, argument.tensor) not in weights:
                found = f"{argument.set} {argument.tensor}"
                yield _finding(where, "a tensor of the weights", found)
        elif argument.leaf >= inputs:
            yield _finding(where, f"one of {inputs} inputs", str(argument.leaf))


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


Shape = tuple[int, ...]

_PLAIN = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
"""The name of a dimension, which is an expression by itself."""


def check_shapes(
    entry_point: EntryPoint, dimensions: Mapping[str, Dimension], where: str
) -> Iterator[Finding]:
    """Yield every contradiction about the sizes of an entry point (AOTC-E118).

    Its trees, and the numbers of its shapes, are those of its tensors: checked before.
    """
    known = set(entry_point.dimensions)
    if unknown := [d for d in sorted(known) if d not in dimensions or not _PLAIN.fullmatch(d)]:
        yield _finding(where, "dimensions of the bundle", ", ".join(unknown))
    tensors = (*entry_point.inputs, *entry_point.outputs)
    bad = [axis for tensor in tensors for axis in tensor.shape if not _is_axis(axis, known)]
    if bad:
        expected = "shapes of sizes and expressions over its dimensions"
        yield _finding(where, expected, ", ".join(map(str, bad))[:200])
        return
    for text in entry_point.relations:
        if not _is_over(_expressions().parse_relation, text, known):
            yield _finding(where, "relations between its dimensions", text)
    for index, profile in enumerate(entry_point.profiles):
        yield from _check_sizes(entry_point, profile, f"{where} profile {index}")
    if entry_point.out_of_profile or entry_point.symbolic is not UNSET:
        from aotc_runtime.verification.policy_consistency import check_policies

        yield from check_policies(entry_point, where)


def _is_axis(axis: int | str, known: set[str]) -> bool:
    if isinstance(axis, int) or axis == "?" or axis in known:
        return True
    return _is_over(_expressions().parse_expression, axis, known)


def _is_over(read: Callable[[str], Any], text: str, known: set[str]) -> bool:
    try:
        return bool(read(text).names() <= known)
    except ValueError:
        return False


def _expressions() -> Any:
    """Return the parser of expressions, imported for the first size or relation that is one."""
    from aotc_runtime.schema import size_expressions

    return size_expressions


def _check_sizes(entry_point: EntryPoint, profile: ProfileRecord, where: str) -> Iterator[Finding]:
    if profile.sizes.keys() != set(entry_point.dimensions):
        expected = f"sizes of {', '.join(entry_point.dimensions) or 'nothing'}"
        yield _finding(where, expected, ", ".join(profile.sizes) or "nothing")
        return
    tensors = (*entry_point.inputs, *entry_point.outputs)
    shapes = (*profile.input_shapes, *profile.output_shapes)
    for tensor, shape in zip(tensors, shapes, strict=False):
        if not _is_shape_at(tensor, shape, profile.sizes):
            place = f"{where} {tensor.path}".rstrip()
            yield _finding(place, f"{list(tensor.shape)} at its sizes", str(list(shape)))


def _is_shape_at(tensor: TensorSpec, shape: Shape, sizes: Mapping[str, int]) -> bool:
    return len(shape) == len(tensor.shape) and all(
        axis == "?" or _size(axis, sizes) == size
        for axis, size in zip(tensor.shape, shape, strict=True)
    )


def _size(axis: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(axis, int):
        return axis
    if axis in sizes:
        return sizes[axis]
    return int(_expressions().parse_expression(axis).value(sizes))


def _finding(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E118", where, found, expected=expected)
