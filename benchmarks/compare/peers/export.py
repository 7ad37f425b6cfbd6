"""`jax.export`: StableHLO in a file, compiled in every process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peers.jit import compiled, leaves, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]


def prepare(case: Path) -> Sequence[Path]:
    import jax
    import jax.export
    import numpy as np

    from benchmarks.compare.cases import function_of

    params = pickle.loads((case / "params.pickle").read_bytes())
    # jax.export does not know Equinox' modules: the arrays go in one by one.
    arrays, tree = jax.tree.flatten(params)
    (case / "arrays.pickle").write_bytes(pickle.dumps(arrays))
    function = function_of(case.name.partition("-")[0])

    def of_arrays(arrays: Any, given: Any) -> Any:
        return function(jax.tree.unflatten(tree, arrays), given)

    exported = jax.export.export(jax.jit(of_arrays))(arrays, np.load(case / "input.npy"))
    (case / "model.jaxexport").write_bytes(exported.serialize())
    return [case / "model.jaxexport", case / "arrays.pickle"]


def imports() -> None:
    import jax.export  # noqa: F401


def load(case: Path) -> Callable[[Any], Any]:
    import jax.export

    exported = jax.export.deserialize(bytearray((case / "model.jaxexport").read_bytes()))
    return compiled(case / "arrays.pickle", exported.call)
