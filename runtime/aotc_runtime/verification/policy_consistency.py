"""Consistency of an entry point's out-of-profile policies.

What passes here is what `serving.routing` builds on: every dimension can be told from what a caller
passes, every result of a padded or split call has a known shape, and the loader can make the masks
and lengths that it passes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import (
    CompileHere,
    DType,
    EntryPoint,
    Pad,
    Parameter,
    TensorSpec,
)
from aotc_runtime.schema.fallback_policies import masks_and_lengths, without_compiling
from aotc_runtime.schema.fill_numbers import parse_fill
from aotc_runtime.schema.pytrees import Leaf, leaves
from aotc_runtime.schema.size_expressions import Expression, parse_expression


def check_policies(entry_point: EntryPoint, where: str) -> Iterator[Finding]:
    """Yield every contradiction in the policies of an entry point (AOTC-E118).

    Its shapes are already known to be expressions over its dimensions.
    """
    policies = entry_point.out_of_profile
    unknown = sorted(policies.keys() - set(entry_point.dimensions))
    if unknown:
        yield _finding(where, "policies for its dimensions", ", ".join(unknown))
        return
    compiles = any(isinstance(policy, CompileHere) for policy in policies.values())
    if compiles != (entry_point.symbolic is not UNSET):
        expected = "a symbolic module" if compiles else "no symbolic module"
        yield _finding(where, expected, "none" if compiles else "a symbolic module")
    if not policies:
        return
    yield from _check_supplied(entry_point, where)
    names = masks_and_lengths(entry_point)
    hidden = {leaf for p in entry_point.parameters if p.name in names for leaf in leaves(p.tree)}
    passed = [leaf for leaf in range(len(entry_point.inputs)) if leaf not in hidden]
    inputs = [entry_point.inputs[leaf] for leaf in passed]
    seen = Counter(
        tuple(profile.input_shapes[leaf] for leaf in passed)
        for profile in entry_point.profiles
        if len(profile.input_shapes) == len(entry_point.inputs)
    )
    if any(count > 1 for count in seen.values()):
        yield _finding(where, "profiles with different shapes of inputs", "equal profiles")
    derived = {
        linear.dimension
        for tensor in inputs
        for expression in _expressions(tensor)
        if (linear := expression.linear()) is not None
    }
    missing = sorted(set(entry_point.dimensions) - derived)
    if missing:
        expected = "an input axis for each dimension"
        yield _finding(where, expected, f"none for {', '.join(missing)}")
    if any("?" in tensor.shape for tensor in (*entry_point.inputs, *entry_point.outputs)):
        yield _finding(where, "known shapes for its policies", "?")
    yield from _check_fills(entry_point, inputs, where)
    for dimension, policy in without_compiling(entry_point).items():
        if not isinstance(policy, Pad):
            yield from _check_split(entry_point, dimension, f"{where} {dimension}")


def _check_supplied(entry_point: EntryPoint, where: str) -> Iterator[Finding]:
    """Require masks and lengths that the loader can make."""
    parameters = {parameter.name: parameter for parameter in entry_point.parameters}
    pads = {d: p for d, p in without_compiling(entry_point).items() if isinstance(p, Pad)}
    masks = {pad.mask for pad in pads.values()} - {""}
    lengths = [pad.length for pad in pads.values() if pad.length]
    if len(set(lengths)) < len(lengths) or masks.intersection(lengths):
        yield _finding(where, "a parameter for each length", "a shared parameter")
    for dimension, pad in pads.items():
        if pad.mask:
            tensor = _one_array(entry_point, parameters.get(pad.mask))
            if tensor is None or tensor.dtype is not DType.BOOL or dimension not in tensor.shape:
                expected = f"a mask of booleans with an axis {dimension}, not donated"
                yield _finding(f"{where} {dimension}", expected, pad.mask)
        if pad.length:
            tensor = _one_array(entry_point, parameters.get(pad.length))
            if tensor is None or "int" not in tensor.dtype.value or tensor.shape:
                expected = "an integer scalar as length, not donated"
                yield _finding(f"{where} {dimension}", expected, pad.length)


def _one_array(entry_point: EntryPoint, parameter: Parameter | None) -> TensorSpec | None:
    """Return the array that a parameter is, if it is one that stays usable."""
    if parameter is None or parameter.donated or not isinstance(parameter.tree, Leaf):
        return None
    index = parameter.tree.index
    return entry_point.inputs[index] if 0 <= index < len(entry_point.inputs) else None


def _check_fills(
    entry_point: EntryPoint, inputs: Sequence[TensorSpec], where: str
) -> Iterator[Finding]:
    dtypes = {tensor.path: tensor.dtype for tensor in inputs}
    texts: dict[str, str] = {}
    for dimension, policy in without_compiling(entry_point).items():
        for path, text in policy.fill.items() if isinstance(policy, Pad) else ():
            if path not in dtypes or not _is_fill(text, dtypes[path]):
                expected = "a fill value of an input, in its dtype"
                yield _finding(f"{where} {dimension}", expected, f"{path} = {text}")
            if texts.setdefault(path, text) != text:
                yield _finding(where, f"one fill for {path}", f"{texts[path]} and {text}")


def _is_fill(text: str, dtype: DType) -> bool:
    try:
        parse_fill(text, dtype)
    except ValueError:
        return False
    return True


def _check_split(entry_point: EntryPoint, dimension: str, where: str) -> Iterator[Finding]:
    for tensor in (*entry_point.inputs, *entry_point.outputs):
        using = [axis for axis in _expressions(tensor) if dimension in axis.names()]
        if using and (len(using) > 1 or dimension not in tensor.shape):
            expected = "the split dimension on one axis, by itself"
            yield _finding(f"{where} {tensor.path}".rstrip(), expected, str(list(tensor.shape)))


def _expressions(tensor: TensorSpec) -> list[Expression]:
    return [parse_expression(axis) for axis in tensor.shape if axis != "?"]


def _finding(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E118", where, found, expected=expected)
