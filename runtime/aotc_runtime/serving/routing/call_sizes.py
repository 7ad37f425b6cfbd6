"""The sizes that a call's shapes give to its dimensions, whether they are accepted, and back.

AOTC-E612: shapes that no sizes of the dimensions give.  AOTC-E613: sizes that the bundle does not
accept. AOTC-E611: sizes that are accepted and that no profile serves.
"""

from collections.abc import Iterator, Mapping, Sequence

from aotc_runtime.base.errors import AotcError, Finding, ShapeError, finding, refusal
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import (
    Dimension,
    EntryPoint,
    OutOfProfilePolicy,
    TensorSpec,
)
from aotc_runtime.schema.fallback_policies import policies_of
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.schema.size_expressions import parse_expression, parse_relation
from aotc_runtime.schema.tensor_text import data_text

PROFILES_SHOWN = 4
Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Sizes = dict[str, int]


def solve(
    name: str, tensors: Sequence[TensorSpec], shapes: Shapes, known: Sequence[Shapes]
) -> Sizes:
    """Return the size of every dimension, from the shapes of the inputs.

    All axes of a dimension must agree. `tensors` and `shapes` are of the inputs that a caller
    passes, `known` their shapes in each profile. Raises ShapeError (AOTC-E612).
    """
    findings = [
        finding
        for index, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True))
        if (finding := _impossible(name, tensor, shape, {each[index] for each in known}))
    ]
    if findings:
        raise ShapeError(*findings)
    stated = _sizes_by_dimension(tensors, shapes)
    torn = {d: users for d, users in stated.items() if len({size for _, size in users}) > 1}
    if torn:
        raise ShapeError(*(_disagreement(name, d, users) for d, users in torn.items()))
    sizes = {dimension: users[0][1] for dimension, users in stated.items()}
    findings = list(_other_axes(name, tensors, shapes, sizes))
    if findings:
        raise ShapeError(*findings)
    return dict(sorted(sizes.items()))


def check_accepted(
    name: str, spec: EntryPoint, dimensions: Mapping[str, Dimension], sizes: Sizes
) -> None:
    """Raises ShapeError (AOTC-E613) for sizes outside of a range, no multiple, or unrelated."""
    findings = []
    for dimension, size in sizes.items():
        rule = dimensions[dimension]
        where = f"{name} {dimension}"
        if not rule.minimum <= size <= rule.maximum:
            expected = f"{rule.minimum} to {rule.maximum}"
            findings.append(finding("AOTC-E613", where, str(size), expected=expected))
        elif size % rule.multiple_of:
            cause = "size-is-not-an-accepted-multiple"
            expected = f"a multiple of {rule.multiple_of}"
            multiple = finding("AOTC-E613", where, str(size), cause=cause, expected=expected)
            findings.append(multiple)
    for text in spec.relations:
        relation = parse_relation(text)
        if relation.names() <= sizes.keys() and not relation.holds(sizes):
            found, cause = sizes_text(sizes), "sizes-violate-a-relation"
            findings.append(finding("AOTC-E613", name, found, cause=cause, expected=text))
    if findings:
        raise ShapeError(*findings)


def no_profile(
    name: str, spec: EntryPoint, tensors: Sequence[TensorSpec], shapes: Shapes, sizes: Sizes
) -> AotcError:
    """Return the error (AOTC-E611) for sizes that are accepted and that nothing serves."""
    policies = ", ".join(f"{policy.value} for {d}" for d, policy in policies_of(spec).items())
    near, head = spec.profiles, "the profiles"
    if len(near) > PROFILES_SHOWN:
        head = f"{len(near)} profiles, nearest"
        near = tuple(
            sorted(near, key=lambda p: sum(abs(p.sizes.get(d, s) - s) for d, s in sizes.items()))
        )
    shown = [sizes_text(profile.sizes) or "fixed shapes" for profile in near[:PROFILES_SHOWN]]
    asked = sizes_text(sizes)
    given = ", ".join(
        f"{tensor.path} {tensor.dtype.value}{list(shape)}"
        for tensor, shape in zip(tensors, shapes, strict=True)
        if any(isinstance(axis, str) for axis in tensor.shape)
    )
    found = f"{asked} ({given})" if asked else given
    otherwise = policies or OutOfProfilePolicy.FAIL.value
    expected = f"one of {head} {'; '.join(shown)} (out_of_profile: {otherwise})"
    hint = f"call with a profile's sizes, or rebuild {_otherwise(spec, sizes)}"
    return refusal("AOTC-E611", name, found, expected=expected, hint=hint)


def _otherwise(spec: EntryPoint, sizes: Sizes) -> str:
    """Return a change to the build manifest that would serve such a call."""
    failing = [d for d, policy in policies_of(spec).items() if policy is OutOfProfilePolicy.FAIL]
    # The others have a size of some profile, and may be served as they are.
    unknown = [d for d in failing if all(p.sizes.get(d) != sizes.get(d) for p in spec.profiles)]
    stated = ", ".join(f'out_of_profile.{dimension} = "pad"' for dimension in unknown or failing)
    return "with these in `profiles`" + f", or with {stated}" * bool(stated)


def _impossible(
    name: str, tensor: TensorSpec, shape: Shape, compiled: set[Shape]
) -> Finding | None:
    """Another number of axes, or another size where the program has a fixed one."""
    where = f"{name} {tensor.path}"
    found = f"{tensor.dtype.value}{list(shape)}"
    if len(shape) != len(tensor.shape):
        axes = len(tensor.shape)
        hint = f"pass an array with {axes} {'axis' if axes == 1 else 'axes'}"
        return finding("AOTC-E612", where, found, expected=data_text(tensor), hint=hint)
    if shape in compiled:
        return None
    for axis, (wanted, size) in enumerate(zip(tensor.shape, shape, strict=True)):
        if isinstance(wanted, int) and wanted != size:
            hint = f"pass an array whose axis {axis} is {wanted}"
            return finding("AOTC-E612", where, found, expected=data_text(tensor), hint=hint)
        if isinstance(wanted, str) and wanted != "?":
            linear = parse_expression(wanted).linear()
            if linear is not None and linear.solve(size) is None:
                hint = f"pass an array whose axis {axis} is {wanted} for some {linear.dimension}"
                return finding("AOTC-E612", where, found, expected=data_text(tensor), hint=hint)
    return None


def _sizes_by_dimension(
    tensors: Sequence[TensorSpec], shapes: Shapes
) -> dict[str, list[tuple[str, int]]]:
    """Return the sizes that inputs give each dimension, from axes that depend on it alone."""
    found: dict[str, list[tuple[str, int]]] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for wanted, size in zip(tensor.shape, shape, strict=True):
            if isinstance(wanted, int) or wanted == "?":
                continue
            linear = parse_expression(wanted).linear()
            solved = linear.solve(size) if linear is not None else None
            if linear is not None and solved is not None:
                found.setdefault(linear.dimension, []).append((tensor.path, solved))
    return found


def _other_axes(
    name: str, tensors: Sequence[TensorSpec], shapes: Shapes, sizes: Sizes
) -> Iterator[Finding]:
    """Yield axes that several dimensions make up, such as batch*seq, and that they do not."""
    for tensor, shape in zip(tensors, shapes, strict=True):
        for axis, (wanted, size) in enumerate(zip(tensor.shape, shape, strict=True)):
            if isinstance(wanted, int) or wanted == "?":
                continue
            expression = parse_expression(wanted)
            if expression.names() <= sizes.keys() and expression.value(sizes) != size:
                where, found = f"{name} {tensor.path}", f"{tensor.dtype.value}{list(shape)}"
                text = f"{wanted} at {sizes_text(sizes)}"
                expected = f"axis {axis} of {expression.value(sizes)}: {text}"
                cause = "inputs-disagree-on-a-dimension"
                yield finding("AOTC-E612", where, found, cause=cause, expected=expected)


def _disagreement(name: str, dimension: str, users: Sequence[tuple[str, int]]) -> Finding:
    found = ", ".join(f"{size} in {path}" for path, size in dict.fromkeys(users))
    cause = "inputs-disagree-on-a-dimension"
    return finding("AOTC-E612", f"{name} {dimension}", found, cause=cause)


def shapes_at(
    tensors: Sequence[TensorSpec], profile: Sequence[Shape], sizes: Mapping[str, int]
) -> list[Shape]:
    """Return the shapes of tensors at these sizes.

    `profile` has the shapes in a profile, for axes with unknown expressions.
    """
    return [
        tuple(
            whole if axis == "?" else parse_expression(axis).value(sizes)
            for axis, whole in zip(tensor.shape, shape, strict=True)
        )
        for tensor, shape in zip(tensors, profile, strict=True)
    ]


def avals_at(
    spec: EntryPoint, sizes: Mapping[str, int]
) -> tuple[tuple[Aval, ...], tuple[Aval, ...]]:
    """Return the inputs and the outputs at these sizes, on one device."""
    first, found = spec.profiles[0], list[tuple[Aval, ...]]()
    for tensors, known in ((spec.inputs, first.input_shapes), (spec.outputs, first.output_shapes)):
        pairs = zip(tensors, shapes_at(tensors, known, sizes), strict=True)
        found.append(tuple(Aval(shape, numpy_dtype(tensor.dtype)) for tensor, shape in pairs))
    return found[0], found[1]
