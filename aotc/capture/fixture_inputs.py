"""Inputs that every executable is checked with: recorded ones, or random ones from a seed."""

import io
import operator
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc.base.errors import finding, raise_if, refusal
from aotc.base.stages import CapturedEntryPoint, CapturedProfile
from aotc.capture import jax_trees, random_keys
from aotc.capture.call_arguments import CallPlan
from aotc.capture.file_digests import read_source
from aotc.capture.like_inputs import like_value, shapes
from aotc.config.build_manifest import (
    BuildManifest,
    EntryPointSpec,
    FixtureSpec,
    InputLeaf,
    InputLike,
    SourceFile,
    all_leaves,
)
from aotc.config.routing_policies import at_once, passing_hint
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.suggestions import closest
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.tensor_text import KEY_DTYPES, key_words

Where = Callable[..., str]
"""`BuildManifest.where` for keys below one `fixtures` table."""

Array = np.ndarray[Any, Any]

ARRAYS_BYTES_MIN, ARRAYS_TIMES_MAX = 64 * 2**20, 16
"""Bytes of arrays that any file may hold, plus this multiple of its size."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrays of a fixture's file, by name; `file` is as in the manifest, `digest` of its bytes."""

    file: str
    arrays: Mapping[str, Array]
    digest: str


def read_recorded(name: str, manifest: BuildManifest, key: str) -> Recorded | None:
    """Return the arrays of an entry point's fixtures under a key; None without such a file.

    Keys are "file" (the inputs), "results" and "expected". Raises CaptureError (AOTC-E831, E840).
    """
    file: SourceFile | None = getattr(manifest.entry_points[name].fixtures, key)
    if file is None:
        return None
    where = manifest.where("entry_points", name, "fixtures", key)
    causes = ("fixtures-file-is-too-compressed", "fixtures-file-is-invalid")
    return read_npz(file, where, "AOTC-E831", causes)


def read_npz(file: SourceFile, where: str, code: str, causes: tuple[str, str]) -> Recorded:
    """Return the arrays of an `.npz` file; `where` is for messages.

    Raises CaptureError: `code` with the first of `causes` for a file that is too compressed, with
    the second for an invalid one; AOTC-E840 for a file that changes.
    """
    compressed, invalid = causes
    data = b""
    try:
        data, digest = read_source(file, where)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > ARRAYS_BYTES_MIN + ARRAYS_TIMES_MAX * len(data):
                # Deflate makes a thousandth of zeros; of numbers that check anything, no tenth.
                found = f"{file.text}: {size} bytes in a file of {len(data)}"
                expected = f"at most {ARRAYS_TIMES_MAX} times the size of the file"
                raise refusal(code, where, found, cause=compressed, expected=expected)
            arrays = {array: archive[array] for array in archive.files}
            for name, array in arrays.items():
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"{name} is not an array")
            return Recorded(file.text, arrays, digest)
    except AotcError:
        raise
    except Exception as error:  # of any decoder and of Python's parser
        is_told = isinstance(error, OSError) or data.startswith(b"PK")
        found = f"{file.text}: {error if is_told else 'not an .npz file'}"
        raise refusal(code, where, found, cause=invalid) from error


def fixture_inputs(
    plan: CallPlan, manifest: BuildManifest, sizes: Mapping[str, int], file: Recorded | None
) -> dict[str, Array]:
    """Return a fixture's inputs at one shape profile, by leaf path; random keys as their data.

    `file` is the result of `recorded`; values that it lacks are the initial values of the plan.
    Raises CaptureError (AOTC-E831).
    """
    entry = manifest.entry_points[plan.name]
    spec, is_tried = entry.fixtures, any(map(at_once, entry.out_of_profile.values()))
    where = partial(manifest.where, "entry_points", plan.name, "fixtures")
    recorded = None if file is None else file.arrays
    by_loader = mask_and_length_arrays(entry, sizes, sizes)
    found: dict[str, Array] = {}
    for path, leaf in all_leaves(plan.inputs).items():
        if isinstance(leaf, InputLike):
            at = ("entry_points", plan.name, "inputs", *path.split("/"))
            value = like_value(leaf, sizes, manifest, at, evaluate=operator.call)
            traced = like_value(leaf, sizes, manifest, at, evaluate=shapes)
            raise_if(_differing(leaf, value, traced, manifest.where(*at)))
            for inner, array in jax_trees.leaf_paths(value):
                dtype = jax_trees.abstract(array).dtype if jax_trees.is_number(array) else None
                leaf_path = jax_trees.join(path, inner)
                found[leaf_path] = made = np.asarray(random_keys.data_of(array), dtype)
                is_integer = jnp.issubdtype(made.dtype, jnp.integer)
                if is_tried and is_integer and random_keys.impl_of(array) is None:
                    cause = "range-is-missing-for-trials"
                    _require_range(spec, leaf_path, made.dtype, where, cause)
        elif path in by_loader:
            found[path] = by_loader[path]
        elif path in plan.initial and path not in (recorded or {}):
            found[path] = plan.initial[path]
        elif recorded is not None:
            found[path] = _cut(recorded, path, leaf, sizes, where)
        else:
            try:
                found[path] = _draw(spec, path, leaf, sizes, where)
            except (MemoryError, OverflowError, ValueError) as error:
                said = f"{path} {leaf.dtype.value}{list(_shape(leaf, sizes))}: {error}"
                cause = "random-input-cannot-be-generated"
                raise refusal("AOTC-E831", where("seed"), said, cause=cause) from error
    expected = f"one of: {', '.join(found)}"
    for path in sorted(spec.ranges.keys() - found.keys()):
        cause = "range-for-an-unknown-input"
        raise refusal("AOTC-E831", where("ranges", path), path, cause=cause, expected=expected)
    for extra in sorted((recorded or found).keys() - found.keys()):
        cause = "fixtures-file-has-an-unknown-array"
        raise refusal("AOTC-E831", where("file"), extra, cause=cause, expected=expected)
    return found


def _differing(spec: InputLike, value: Any, traced: Any, where: str) -> Iterator[Finding]:
    """Yield AOTC-E829 if a `like` function returns another structure than when it was traced."""
    called = jax.tree.map(jax_trees.abstract, value)
    if jax.tree.structure(called) != jax.tree.structure(traced):
        found = f"{jax.tree.structure(called)} instead of {jax.tree.structure(traced)}"
    else:
        pairs = zip(jax_trees.leaf_paths(called), jax.tree.leaves(traced), strict=True)
        found = next((f"{p}: {one} instead of {two}" for (p, one), two in pairs if one != two), "")
    if found:
        yield finding("AOTC-E829", where, found, cause="like-function-is-not-deterministic")


def recorded_sizes(plan: CallPlan, inputs: Recorded | None) -> dict[str, int]:
    """Return the sizes of dimensions that the inputs in a file have; none that differ."""
    found: dict[str, set[int]] = {}
    for path, leaf in all_leaves(plan.inputs).items():
        if isinstance(leaf, InputLeaf) and inputs is not None and path in inputs.arrays:
            for axis, size in zip(leaf.shape, inputs.arrays[path].shape, strict=False):
                if isinstance(axis, str):
                    found.setdefault(axis, set()).add(size)
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}


def leading_dimensions(plan: CallPlan) -> set[str]:
    """Return the dimensions that are only ever the first axis of an input: they count its rows."""
    leaves = [
        leaf
        for path, leaf in all_leaves(plan.inputs).items()
        if isinstance(leaf, InputLeaf) and path not in plan.initial
    ]
    inner = {axis for leaf in leaves for axis in leaf.shape[1:]}
    first = {leaf.shape[0] for leaf in leaves if leaf.shape}
    return {axis for axis in first - inner if isinstance(axis, str)}


def expected_by_profile(
    entry_point: CapturedEntryPoint,
    file: Recorded,
    sizes: Mapping[str, int],
    rows: Collection[str],
    where: str,
) -> list[dict[str, Array] | None]:
    """Return the framework's results at each profile, by leaf path; None where absent.

    Besides arrays of profiles (`logits[batch=8]`) the file may have those of the recorded inputs
    (`logits`). A profile without arrays of its own is compared by rows with others, since its
    inputs are rows of the recorded ones. `sizes` are those of the recorded inputs; `rows` are the
    dimensions that count rows. Raises CaptureError (AOTC-E831), also if no profile can be compared.
    """
    names = _result_names(entry_point, file, where)
    sources = [sizes, *(profile.sizes for profile in entry_point.profiles)]
    found: list[dict[str, Array] | None] = []
    for profile in entry_point.profiles:
        if all(label(name, profile.sizes) in file.arrays for name in names):
            found += results_by_profile(
                replace(entry_point, profiles=(profile,)), file, where, exact=False
            )
            continue
        taken = (
            _by_rows(entry_point, profile, file.arrays, source, sizes, rows) for source in sources
        )
        found.append(next((each for each in taken if each is not None), None))
    if all(each is None for each in found):
        results_by_profile(entry_point, file, where, exact=False)
    return found


def _by_rows(
    entry_point: CapturedEntryPoint,
    profile: CapturedProfile,
    arrays: Mapping[str, Array],
    source: Mapping[str, int],
    sizes: Mapping[str, int],
    rows: Collection[str],
) -> dict[str, Array] | None:
    """Return results at a profile, of rows of those that were recorded at the sizes `source`."""
    other = [name for name, size in profile.sizes.items() if source.get(name) != size]
    if len(other) > 1 or not {*other} <= {*rows} or any(name not in sizes for name in other):
        return None
    made: dict[str, Array] = {}
    for spec, shape in zip(entry_point.outputs, profile.output_shapes, strict=True):
        name = spec.path or "result"
        array = arrays.get(label(name, source))
        if array is None and source == sizes:
            array = arrays.get(name)
        if array is None or array.ndim != len(shape):
            return None
        array = with_dtype(array, spec.dtype)
        if other:
            wanted, had, given = profile.sizes[other[0]], source[other[0]], sizes[other[0]]
            # Row i of a profile's inputs is row i % given of the recorded ones.
            places = np.arange(wanted) % given
            if not shape or (array.shape[0], shape[0]) != (had, wanted) or places.max() >= had:
                return None
            array = array[places]
        if array.shape != shape:
            return None
        made[spec.path] = np.ascontiguousarray(array)
    return made


def _result_names(entry_point: CapturedEntryPoint, file: Recorded, where: str) -> list[str]:
    """Raises CaptureError (AOTC-E831) for an array of the file that is no result."""
    names = [spec.path or "result" for spec in entry_point.outputs]
    for extra in sorted(file.arrays):
        # Of other profiles there may be some as well, which this build does not make.
        if not any(extra == name or extra.startswith(f"{name}[") for name in names):
            cause = "recorded-results-have-an-unknown-array"
            expected, hint = f"one of: {', '.join(names)}", None
            if close := closest(extra.partition("[")[0], names):
                hint = f"did you mean `{close}`?"
            raise refusal("AOTC-E831", where, extra, cause=cause, expected=expected, hint=hint)
    return names


def results_by_profile(
    entry_point: CapturedEntryPoint, file: Recorded, where: str, *, exact: bool
) -> list[dict[str, Array]]:
    """Recorded results of an entry point at each of its profiles, by leaf path.

    The file has an array `logits[batch=8]` for the leaf `logits` at the profile of that name, or
    `logits` where there are no dimensions; a result that is one array is called `result`. exact:
    whether they must have the dtypes that the function returns. Raises CaptureError (AOTC-E831).
    """
    names = _result_names(entry_point, file, where)
    found: list[dict[str, Array]] = []
    for profile in entry_point.profiles:
        found.append({})
        for name, spec, shape in zip(
            names, entry_point.outputs, profile.output_shapes, strict=True
        ):
            at = label(name, profile.sizes)
            if at not in file.arrays:
                had = ", ".join(sorted(file.arrays)) or "no arrays"
                cause = "recorded-results-are-missing"
                expected = at if exact or name in (at, *file.arrays) else f"{name}, or {at}"
                raise refusal("AOTC-E831", where, had, cause=cause, expected=expected)
            array = with_dtype(file.arrays[at], spec.dtype)
            alike = array.dtype.name == spec.dtype.value or not exact
            if not alike or array.shape != shape:
                raise refusal(
                    "AOTC-E831",
                    f"{where} {at}",
                    f"{array.dtype.name}{list(array.shape)}",
                    cause="recorded-results-do-not-match-the-outputs",
                    expected=f"{spec.dtype.value}{list(shape)}",
                    hint=narrowing_hint(array, spec.dtype),
                )
            found[-1][spec.path] = np.ascontiguousarray(array).reshape(shape)
    return found


def with_dtype(array: Array, dtype: DType) -> Array:
    """Return an array of a file with its dtype; of bfloat16 numpy writes only the size."""
    wanted = jnp.dtype(dtype.value)
    is_raw = array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize
    return array.view(wanted) if is_raw and not array.dtype.fields else array


def as_input(array: Array, dtype: DType) -> Array:
    """Return an array of a file as an input, which may have fewer bits than a framework records."""
    array = with_dtype(array, dtype)
    if array.dtype.kind not in "iu" or not narrowing_hint(array, dtype):
        return array
    narrow = array.astype(dtype.value)
    return narrow if (narrow == array).all() else array


def mask_and_length_arrays(
    spec: EntryPointSpec, real: Mapping[str, int], padded: Mapping[str, int]
) -> dict[str, Array]:
    """Return the masks and lengths of a call of `real` sizes that is padded to `padded`."""
    masks: dict[str, set[str]] = {}
    found: dict[str, Array] = {}
    for dimension, pad in spec.pads.items():
        if pad.mask:
            masks.setdefault(pad.mask, set()).add(dimension)
        if pad.length:
            found[pad.length] = np.asarray(real[dimension], np.int32)
    for parameter, dimensions in masks.items():
        leaf = spec.inputs[parameter]
        assert isinstance(leaf, InputLeaf), "the manifest was checked"
        found[parameter] = mask = np.ones(_shape(leaf, padded), np.bool_)
        for axis, name in enumerate(leaf.shape):
            if name in dimensions:
                np.moveaxis(mask, axis, 0)[real[str(name)] :] = False
    return found


def _shape(leaf: InputLeaf, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in leaf.shape)


def narrowing_hint(array: Array, dtype: DType) -> str | None:
    """Return the hint for an array that differs from an input only by 64-bit types being off."""
    wide, narrow = array.dtype.name, dtype.value
    if array.dtype.kind not in "iufc" or wide == narrow:
        return None
    if jax.dtypes.canonicalize_dtype(array.dtype).name != narrow:
        return None
    is_beyond = array.dtype.kind in "iu" and (array.astype(narrow) != array).any()
    does = f"a value does not fit into {narrow}" if is_beyond else f"record it as {narrow}"
    return f"{does}: without `enable_x64 = true` a model's {wide} is {narrow}"


def _cut(
    arrays: Mapping[str, Array], path: str, leaf: InputLeaf, sizes: Mapping[str, int], where: Where
) -> Array:
    """Return a recorded array at this profile, repeated along axes that have a dimension."""
    if path not in arrays:
        found, hint = ", ".join(sorted(arrays)), passing_hint(path, leaf)
        expected = f"an array named {path}"
        raise refusal("AOTC-E831", where("file"), found, expected=expected, hint=hint)
    array = arrays[path]
    of_keys = ""
    if isinstance(leaf.dtype, KeyImpl):
        of_keys = f", data of {KEY_DTYPES[leaf.dtype]}{list(leaf.shape)}"
        leaf = InputLeaf((*leaf.shape, key_words(leaf.dtype)), DType.UINT32)
    assert isinstance(leaf.dtype, DType), "of keys, these are their data"
    array = as_input(array, leaf.dtype)
    fits = array.dtype.name == leaf.dtype.value and array.ndim == len(leaf.shape)
    fits = fits and all(
        size > 0 if isinstance(axis, str) else size == axis
        for axis, size in zip(leaf.shape, array.shape, strict=False)
    )
    if not fits:
        raise refusal(
            "AOTC-E831",
            f"{where('file')} {path}",
            f"{array.dtype.name}{list(array.shape)}",
            expected=f"{leaf.dtype.value}{list(leaf.shape)}{of_keys}",
            hint="record `jax.random.key_data(keys)`"
            if of_keys
            else narrowing_hint(array, leaf.dtype)
            or "record the array with the dtype and shape of the input",
        )
    for index, (axis, size) in enumerate(zip(leaf.shape, _shape(leaf, sizes), strict=True)):
        if isinstance(axis, str):
            array = np.take(array, np.arange(size) % array.shape[index], axis=index)
    return np.ascontiguousarray(array).reshape(_shape(leaf, sizes))


def _require_range(spec: FixtureSpec, path: str, dtype: Any, where: Where, cause: str) -> None:
    if path not in spec.ranges:
        hint = f'add `ranges = {{ "{path}" = [lowest, highest] }}`'
        raise refusal("AOTC-E831", where("ranges"), f"{path} {dtype.name}", cause=cause, hint=hint)


def _draw(
    spec: FixtureSpec, path: str, leaf: InputLeaf, sizes: Mapping[str, int], where: Where
) -> Array:
    """Return random values of a leaf's dtype.

    Floats are from a normal distribution, or uniform in a range; integers are uniform in their
    range; random keys are any bits, all of which are valid. Raises what numpy raises where it has
    none, and CaptureError (AOTC-E831).
    """
    shape = _shape(leaf, sizes)
    generator = np.random.default_rng([spec.seed, zlib.crc32(path.encode())])
    if isinstance(leaf.dtype, KeyImpl):
        return generator.integers(0, 1 << 32, (*shape, key_words(leaf.dtype)), np.uint32)
    dtype = jnp.dtype(leaf.dtype.value)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if jnp.issubdtype(dtype, jnp.integer):
        _require_range(spec, path, dtype, where, "range-is-missing-for-random-inputs")
        low, high = (int(bound) for bound in spec.ranges[path])
        info = jnp.iinfo(dtype)
        if low < info.min or high > info.max:
            found = f"[{low}, {high}]"
            cause = "random-input-cannot-be-generated"
            expected = f"[{info.min}, {info.max}] for {dtype.name}"
            raise refusal("AOTC-E831", where("ranges", path), found, cause=cause, expected=expected)
        return np.asarray(generator.integers(low, high, shape, endpoint=True)).astype(dtype)
    if path in spec.ranges:
        low_float, high_float = spec.ranges[path]
        values = generator.uniform(low_float, high_float, shape)
    else:
        values = generator.standard_normal(shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        values = values + 1j * generator.standard_normal(shape)
    return np.asarray(values).astype(dtype)
