"""Programs over a mesh: the mesh that they are traced under, and the shardings of their arrays.

A program takes its mesh from the context: `jax.lax.with_sharding_constraint(x, P("data"))`,
`jax.shard_map(f, in_specs=…, out_specs=…)`, `jax.sharding.get_abstract_mesh()`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np

from aotc.base.errors import raise_if
from aotc.capture import jax_trees, random_keys
from aotc.capture.call_arguments import FlatCall
from aotc.capture.weight_sets import Weights
from aotc.config.build_manifest import BuildManifest
from aotc.config.sharding_specs import assign
from aotc_runtime.schema.bundle_manifest import Sharding
from aotc_runtime.schema.manifest_labels import label

type WeightShardings = Mapping[str, Mapping[str, Sharding]]
"""Shardings by weights set and tensor."""


def _mesh(sizes: Mapping[str, int]) -> jax.sharding.Mesh:
    devices = np.array(jax.devices()[: prod(sizes.values())])
    return jax.sharding.Mesh(
        devices.reshape(*sizes.values()),
        tuple(sizes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(sizes),
    )


def under_mesh(sizes: Mapping[str, int]) -> AbstractContextManager[Any]:
    """Return a context with a mesh of these axes over this process's devices.

    The build has started the process with enough of them. Without axes, the context does nothing.
    """
    if not sizes:
        return nullcontext()
    context: AbstractContextManager[Any] = jax.set_mesh(_mesh(sizes))
    return context


def on_one_device(sizes: Mapping[str, int]) -> AbstractContextManager[Any]:
    """Return a context with a mesh whose axes have size 1, for one device.

    Without axes, the context does nothing.
    """
    return under_mesh(dict.fromkeys(sizes, 1))


def weight_shardings(
    manifest: BuildManifest, weights: Mapping[str, Weights]
) -> dict[str, dict[str, Sharding]]:
    """Return each tensor's sharding by set; raises BuildManifestError (AOTC-E806, E807, E814)."""
    found: dict[str, dict[str, Sharding]] = {}
    for name, loaded in weights.items():
        leaves = [(path, array.shape) for path, array in loaded.tensors.items()]
        where = _places(manifest, "weights", name, "shardings")
        patterns = manifest.weights[name].shardings
        found[name], findings = assign(patterns, manifest.mesh, {"": leaves}, where)
        raise_if(findings)
    return found


@dataclass(frozen=True, slots=True)
class ArrayShardings:
    """The shardings of one entry point's arrays; `inputs` are by leaf path."""

    manifest: BuildManifest
    entry_point: str
    weights: WeightShardings
    inputs: Mapping[str, Sharding]

    def of_input(self, path: str, aval: Any) -> Sharding:
        """Return the sharding of an input leaf, as the module takes it."""
        return _data_sharding(self.inputs[path], aval)

    def of_outputs(self, result: Any, sizes: Mapping[str, int]) -> list[Sharding]:
        """Return the sharding of each leaf of a result at these sizes, as the module returns it.

        Raises BuildManifestError (AOTC-E806, E807, E814).
        """
        name = self.entry_point
        leaves = jax_trees.leaf_paths(result)
        found, findings = assign(
            self.manifest.entry_points[name].shardings.outputs,
            self.manifest.mesh,
            {label(name, sizes): [(path, leaf.shape) for path, leaf in leaves]},
            _places(self.manifest, "entry_points", name, "shardings", "outputs"),
        )
        raise_if(findings)
        return [_data_sharding(found[path], leaf) for path, leaf in leaves]

    def jit_arguments(
        self, call: FlatCall, result: Any, sizes: Mapping[str, int]
    ) -> dict[str, Any]:
        """Return arguments of `jax.jit` with the shardings; `result` is abstract."""
        mesh = _mesh(self.manifest.mesh)

        def named(sharding: Sharding) -> jax.sharding.NamedSharding:
            axes = (axes if len(axes) > 1 else axes[0] if axes else None for axes in sharding)
            return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))

        outputs = map(named, self.of_outputs(result, sizes))
        return {
            "in_shardings": tuple(
                named(
                    self.weights[leaf.owner][leaf.path]
                    if leaf.is_weight
                    else self.of_input(jax_trees.join(leaf.owner, leaf.path), leaf.aval)
                )
                for leaf in call.leaves
            ),
            "out_shardings": jax.tree.unflatten(jax.tree.structure(result), outputs),
        }


def shardings_of(
    manifest: BuildManifest,
    entry_point: str,
    weights: WeightShardings,
    calls: Sequence[tuple[FlatCall, Mapping[str, int]]],
) -> ArrayShardings | None:
    """Return the shardings of an entry point's arrays at each profile; None without a mesh.

    Raises BuildManifestError (AOTC-E806, E807, E814).
    """
    if not manifest.mesh:
        return None
    leaves = {
        label(entry_point, sizes): [
            (jax_trees.join(leaf.owner, leaf.path), leaf.aval.shape)
            for leaf in call.leaves
            if not leaf.is_weight
        ]
        for call, sizes in calls
    }
    inputs, findings = assign(
        manifest.entry_points[entry_point].shardings.inputs,
        manifest.mesh,
        leaves,
        _places(manifest, "entry_points", entry_point, "shardings", "inputs"),
    )
    raise_if(findings)
    return ArrayShardings(manifest, entry_point, weights, inputs)


def _data_sharding(sharding: Sharding, aval: Any) -> Sharding:
    """Return the sharding of an array's data; that of random keys has one more axis."""
    is_key = random_keys.impl_of(aval) is not None
    return (*sharding, ()) if sharding and is_key else sharding


def _places(manifest: BuildManifest, *at: str) -> Callable[[str], str]:
    return lambda pattern: manifest.where(*at, pattern)
