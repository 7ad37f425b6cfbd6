"""Weights sets: read from safetensors, or made by the program's own `init` function."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc.base.errors import raise_if, refusal
from aotc.base.stages import Tensor
from aotc.capture import import_program, jax_trees, trace_refusals, user_exceptions
from aotc.capture.checkpoint_tensors import open_weights, require_wanted
from aotc.capture.weight_files import WeightsFile
from aotc.config.build_manifest import BuildManifest
from aotc_runtime.base.suggestions import with_article
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.system.bundle_files import map_file

CLOSURE = "closure"
"""The weights set of arrays that functions close over."""


ALONE = "value"
"""The tensor of weights that are one array, and no tree of arrays."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A weights set.

    `origin` is "source", "init" or "closure"; `tree` a pytree of ShapeDtypeStruct; `tensors` are by
    leaf path, in leaf order; `files` the ones read; `made` the result of `init`, for tensors of it.
    """

    origin: str
    tree: Any
    tensors: Mapping[str, Tensor]
    files: tuple[WeightsFile, ...] = ()
    made: Any = None


def nest(tensors: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return tensors as nested dicts, their names split at "/". Raises CaptureError (AOTC-E830)."""
    root: dict[str, Any] = {}
    for name in sorted(tensors):
        if not name:
            hint = "give every tensor a name"
            raise refusal("AOTC-E830", where, "a tensor without a name", hint=hint)
        *folders, last = name.split("/")
        node = root
        for folder in folders:
            node = node.setdefault(folder, {})
            if not isinstance(node, dict):
                break
        if not isinstance(node, dict) or last in node:
            found = f"{name}, and a tensor whose name is a prefix of it"
            raise refusal("AOTC-E830", where, found, cause="tensor-names-conflict")
        node[last] = tensors[name]
    return root


def check_x64(path: str, dtype: np.dtype[Any], where: str) -> None:
    """Refuse a dtype that jax would silently narrow to 32 bits. Raises CaptureError (AOTC-E828)."""
    narrowed = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    if narrowed != dtype:
        hint = "set `enable_x64 = true` in the build manifest, or convert the tensor"
        raise refusal("AOTC-E828", where, f"{path}: {dtype}", expected=str(narrowed), hint=hint)


def load(name: str, manifest: BuildManifest) -> Weights:
    """Read or make a weights set. Raises CaptureError (AOTC-E820, E828, E829, E830, E840)."""
    spec = manifest.weights[name]
    in_file = manifest.where("weights", name, "source")
    if spec.init is None:
        assert spec.source is not None, "one of the two is there"
        files, tensors = open_weights(spec, in_file)
        return in_tree(tensors, in_file, files)
    where = manifest.where("weights", name, "init")
    init = import_program.resolve(spec.init, manifest.root, where)
    try:
        values = init() if spec.source is None else jax.eval_shape(init)
    except (Exception, SystemExit) as error:
        found = user_exceptions.describe(error, manifest.root)
        cause = "weights-function-raised-an-exception"
        hint = user_exceptions.hint(error, "run with `-v` to see the traceback")
        raise refusal("AOTC-E829", where, found, cause=cause, hint=hint) from error
    named = jax_trees.leaf_paths(values)
    for path, leaf in named:
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise refusal(
                "AOTC-E830",
                where,
                f"{path or 'the result'}: {with_article(type(leaf).__name__)}",
                cause="weights-are-not-a-tree-of-arrays",
                hint="return the arrays alone, such as `eqx.filter(model, eqx.is_array)` or "
                "`nnx.state(model, nnx.Param)`",
            )
        raise_if(trace_refusals.check_dtype(leaf.dtype, path, where))
        check_x64(path or "the result", leaf.dtype, where)
    jax_trees.check_paths(values, where)
    if spec.source is None:
        made = {path or ALONE: np.asarray(leaf) for path, leaf in named}
        return Weights("init", jax.tree.map(jax_trees.abstract, values), made, made=values)
    structure = jax.tree.map(_abstract, values)
    files, tensors = open_weights(spec, in_file)
    wanted = {path or ALONE: leaf for path, leaf in named}
    require_wanted(tensors, wanted, in_file)
    return Weights("source", structure, {path: tensors[path] for path in wanted}, files)


def in_tree(
    tensors: Mapping[str, Tensor], where: str, files: tuple[WeightsFile, ...] = ()
) -> Weights:
    """Return the weights set of tensors that are read from files; `where` is for messages.

    Raises CaptureError (AOTC-E828, E830).
    """
    for name, array in tensors.items():
        check_x64(name, array.dtype, where)
    structure = jax.tree.map(_abstract, nest(tensors, where))
    ordered = {path: tensors[path] for path, _ in jax_trees.leaf_paths(structure)}
    return Weights("source", structure, ordered, files)


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return a tensor of a file, which is never weakly typed, whatever `init` would make."""
    return jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(leaf.dtype))


def read_shards(paths: Iterable[Path]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the tensors of a weights set that lies in several files."""
    views = (tensor_views(map_file(path), path.name) for path in paths)
    return {name: array for each in views for name, (array, _) in each.items()}
