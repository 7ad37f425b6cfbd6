"""Ensembles of trees: shallow ones compare in every node, in others rows descend level by level."""

import operator as operators
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_graph_reader import ML
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.operators.onnx_classical import floats, labels_of, picked, transformed

LEAF = "LEAF"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
COMPARED = (operators.le, operators.lt, operators.ge, operators.gt, operators.eq, operators.ne)
LARGEST_TABLE = 1 << 26
"""The most weights of leaves, counting one for each leaf and target."""
LARGEST_SHALLOW = 1 << 14
"""The most weights, if all trees were full, of trees whose nodes are all compared."""

type Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees.

    `yes` and `no` are the next nodes, a leaf's own index for a leaf. `roots` has one for each tree;
    `depth` is the most steps to a leaf. `weights` are by (node, target), 0 for inner nodes.
    """

    feature: Ints
    value: Ints
    mode: Ints
    yes: Ints
    no: Ints
    missing_yes: Ints
    roots: Ints
    depth: int
    weights: Ints


def _depth(call: Call, yes: Ints, no: Ints, leaf: Ints, roots: Ints) -> int:
    """Return the levels of the highest tree; each node has to be reached, and once."""
    level, depth = roots, 0
    seen = np.zeros(len(yes), bool)
    while True:
        if seen[level].any() or len(np.unique(level)) < len(level):
            call.refuse("a tree with two paths to one node")
        seen[level] = True
        inner = level[~leaf[level]]
        if not len(inner):
            if not seen.all():
                call.refuse("a node without a path from a root")
            return depth
        level, depth = np.concatenate([yes[inner], no[inner]]), depth + 1


def _forest(call: Call, of: str, targets: int) -> Forest:
    """Return the trees of TreeEnsembleRegressor and TreeEnsembleClassifier, versions 1 and 3."""

    def listed(name: str, default: Any = ()) -> Any:
        tensor = call.attribute(f"{name}_as_tensor")
        return call.attribute(name, default) if tensor is None else tensor.reshape(-1)

    trees, nodes = listed("nodes_treeids"), listed("nodes_nodeids")
    count = len(trees)
    modes = [mode.decode("ascii", "replace") for mode in listed("nodes_modes")]
    lists = {name: listed(f"nodes_{name}") for name in ("featureids", "values")}
    ends = {name: listed(f"nodes_{name}") for name in ("truenodeids", "falsenodeids")}
    if {len(entry) for entry in (nodes, modes, *lists.values(), *ends.values())} != {count}:
        call.refuse("attributes of nodes with different lengths")
    if not count or not set(modes) <= {LEAF, *MODES}:
        call.refuse("no nodes, or unknown modes")
    index = {pair: i for i, pair in enumerate(zip(trees, nodes, strict=True))}
    if len(index) < count:
        call.refuse("a tree with a node twice")
    leaf = np.array([mode == LEAF for mode in modes])
    own = np.arange(count)
    yes, no = own.copy(), own.copy()
    for i in np.flatnonzero(~leaf):
        yes[i] = index.get((trees[i], ends["truenodeids"][i]), -1)
        no[i] = index.get((trees[i], ends["falsenodeids"][i]), -1)
    if min(yes.min(), no.min()) < 0:
        call.refuse("a branch to a missing node")
    firsts: dict[int, int] = {}
    children = {*yes[~leaf].tolist(), *no[~leaf].tolist()}
    for place, tree in enumerate(trees):
        if place not in children:
            firsts.setdefault(tree, place)
    if len(firsts) != len(set(trees)):
        call.refuse("a tree without a root")
    roots = np.array([firsts[tree] for tree in sorted(firsts)])
    tracks = listed("nodes_missing_value_tracks_true") or [0] * count
    if len(tracks) != count:
        call.refuse("attributes of nodes with different lengths")
    weights = _leaves(call, of, index, targets, count, listed)
    mode = np.array([0 if name == LEAF else MODES.index(name) for name in modes])
    return Forest(
        np.asarray(lists["featureids"], np.int64),
        np.asarray(lists["values"], getattr(lists["values"], "dtype", np.float32)),
        mode,
        yes,
        no,
        np.asarray(tracks, bool),
        roots,
        _depth(call, yes, no, leaf, roots),
        weights,
    )


def _leaves(call: Call, of: str, index: Any, targets: int, count: int, listed: Any) -> Ints:
    if count * targets > LARGEST_TABLE:
        call.lacks(f"{count} nodes with weights for {targets} targets each")
    stated = listed(f"{of}_weights")
    ids = listed(f"{of}_ids")
    places = list(zip(listed(f"{of}_treeids"), listed(f"{of}_nodeids"), strict=True))
    if not len(stated) == len(ids) == len(places):
        call.refuse("attributes of leaves with different lengths")
    weights = np.zeros((count, targets), getattr(stated, "dtype", np.float32))
    for place, target, weight in zip(places, ids, stated, strict=True):
        node = index.get(tuple(place), -1)
        if node < 0 or not 0 <= target < targets:
            call.refuse("a weight of a missing leaf or target")
        weights[node, target] += weight
    return weights


def _reached(call: Call, forest: Forest, x: Any, weights: Any) -> Any:
    """Return the weights of the leaf of each row in each tree."""
    features = forest.feature.max(initial=0)
    if forest.feature.min(initial=0) < 0 or features >= x.shape[1]:
        call.refuse(f"feature {features} of {x.shape[1]}")
    # rows share these tables, which stay small integers where they fit
    feature, yes, no, mode = (
        jnp.asarray(table, jnp.int32)
        for table in (forest.feature, forest.yes, forest.no, forest.mode)
    )
    value = jnp.asarray(forest.value, x.dtype)
    used = sorted(set(forest.mode[forest.yes != np.arange(len(forest.yes))].tolist()))
    missing = jnp.asarray(forest.missing_yes) if forest.missing_yes.any() else None

    def compared(at: Any, seen: Any) -> Any:
        bound = value[at]
        goes = COMPARED[used[0]](seen, bound) if used else jnp.zeros(seen.shape, jnp.bool_)
        for kind in used[1:]:
            goes = jnp.where(mode[at] == kind, COMPARED[kind](seen, bound), goes)
        return goes if missing is None else goes | (jnp.isnan(seen) & missing[at])

    def down(_: Any, at: Any) -> Any:
        goes = compared(at, jnp.take_along_axis(x, feature[at], 1))
        return jnp.where(goes, yes[at], no[at])

    if forest.weights[0].size * len(forest.roots) << forest.depth <= LARGEST_SHALLOW:
        levels = [forest.roots[:, None]]
        for _ in range(forest.depth):
            ends = [forest.yes[levels[-1]], forest.no[levels[-1]]]
            levels.append(np.stack(ends, -1).reshape(len(forest.roots), -1))
        found = weights[levels.pop()][:, :, None]
        for level in reversed(levels):
            goes = compared(level[..., None], x.T[forest.feature[level]])
            found = jnp.where(goes[..., None], found[:, ::2], found[:, 1::2])
        return jnp.broadcast_to(found[:, 0], (len(forest.roots), x.shape[0], found.shape[-1]))
    start = jnp.broadcast_to(jnp.asarray(forest.roots, jnp.int32), (x.shape[0], len(forest.roots)))
    return weights[lax.fori_loop(0, forest.depth, down, start)].swapaxes(0, 1)


def _aggregated(call: Call, forest: Forest, x: Any, how: str) -> Any:
    if how not in ("SUM", "AVERAGE"):
        call.lacks(f"the aggregate_function {how!r}")
    dtype = jnp.promote_types(x.dtype, call.jax_dtype(forest.weights.dtype))
    total = _reached(call, forest, x, jnp.asarray(forest.weights, dtype)).sum(0)
    return total / len(forest.roots) if how == "AVERAGE" else total


def _base(call: Call, dtype: Any) -> Any:
    tensor = call.attribute("base_values_as_tensor")
    stated = call.attribute("base_values", ()) if tensor is None else tensor.reshape(-1)
    return jnp.asarray(np.asarray(stated if len(stated) else [0]), dtype)


@operator("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(call: Call, x: Value) -> Value:
    x = floats(call, x)
    forest = _forest(call, "target", call.attribute("n_targets", 1))
    result = _aggregated(call, forest, x, call.attribute("aggregate_function", "SUM"))
    return transformed(call, result + _base(call, result.dtype)).astype(jnp.float32)


@operator("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(call: Call, x: Value) -> tuple[Value, Value]:
    x = floats(call, x)
    labels = labels_of(call, "classlabels_int64s", "classlabels_strings")
    forest = _forest(call, "class", max(len(labels), 2))
    scores = _aggregated(call, forest, x, "SUM")
    base = _base(call, scores.dtype)
    ids = set(call.attribute("class_ids", ()))
    if len(labels) > 2 or len(ids) > 1:
        scores = (scores + base)[:, : len(labels)]
        chosen = picked(call, labels, jnp.argmax(scores, 1))
        return chosen, transformed(call, scores).astype(jnp.float32)
    if len(labels) != 2:
        call.lacks(f"a classifier of {len(labels)} classes")
    score = scores[:, next(iter(ids), 0)] + base[-1]
    positive = bool((forest.weights >= 0).all())
    chosen = picked(call, labels, (score > (0.5 if positive else 0)).astype(jnp.int32))
    transform = call.attribute("post_transform", "NONE")
    if transform not in ("NONE", "LOGISTIC"):
        call.lacks(f"a classifier of one score with the post_transform {transform}")
    if positive:
        pair = [1 - score, score]
    elif transform == "LOGISTIC":
        pair = [1 / (1 + jnp.exp(score)), 1 / (1 + jnp.exp(-score))]
    else:
        pair = [-score, score]
    return chosen, jnp.stack(pair, 1).astype(jnp.float32)


@operator("ZipMap", domain=ML)
def zip_map(call: Call, x: Value) -> Value:
    return call.lacks("ZipMap within the model", hint="zipmap=False")
