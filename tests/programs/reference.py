"""Results of plain JAX: `python reference.py MODULE MANIFEST SEED STEPS OUT`.

The functions that the manifest names are called as their users call them, under `jax.jit` and with
real structures. Neither aotc nor what it recorded takes part. Inputs are drawn by the module: its
`fresh_NAME(rng)` gives keyword arguments for the entry point of that name, or its `calls_NAME(rng)`
those of every call. Where the module's `STATES` says so, parts of a result are passed to the next
call; `ADDED` names masks and lengths, which are the loader's to pass.
"""

import functools
import importlib
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import plain


def one_level(value: Any) -> tuple[str, Any]:
    """`plain.OneLevel` by jax's own paths."""
    if value is None:
        return "none", None
    if type(value) in {bool, int, float}:
        return "number", value
    level = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)[0]
    if len(level) == 1 and not level[0][0]:
        return "leaf", _data(value)
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        return kind.__name__, value
    children = [(_name(path[0]), child) for path, child in level]
    # A class may register its named tuples otherwise: with other children, in another order.
    if isinstance(value, tuple) and [path[0] for path, _ in level] == [
        jax.tree_util.GetAttrKey(field) for field in getattr(value, "_fields", ())
    ]:
        return "named tuple", (kind.__name__, children)
    fields = getattr(value, "_fields", ())
    held = [[f for f in fields if getattr(value, f) is child] for _, child in children]
    if isinstance(value, tuple) and all(len(names) == 1 for names in held):
        children = [(names[0], child) for names, (_, child) in zip(held, children, strict=True)]
    return "record", (kind.__name__, children)


def _name(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"a step of a path that jax does not document: {key!r}")


def _data(leaf: Any) -> Any:
    """An array as it is, and random keys as their numbers."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


def found(name: str) -> Any:
    """Return what `package.module:attribute` names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def called(module: Any, name: str, manifest: Any, seed: int, steps: int, writer: Any) -> Any:
    """The document of one entry point: its state, and the inputs and the result of each call."""
    described = manifest["entry_points"][name]
    function = functools.partial(found(described["function"]), **described.get("static", {}))
    weights = {
        parameter: found(manifest["weights"][of]["init"])()
        for parameter, of in described.get("bind", {}).items()
    }
    compiled = jax.jit(function)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    states: dict[str, Any] = getattr(module, "STATES", {}).get(name, {})
    added = getattr(module, "ADDED", {}).get(name, ())
    drawn = getattr(module, f"calls_{name}", None) or _repeated(module, name, steps)
    calls, carried = [], {}
    for fresh in drawn(rng):
        inputs = {**fresh, **carried}
        result = compiled(**weights, **inputs)
        passed = {k: writer.node(v) for k, v in inputs.items() if k not in {*carried, *added}}
        calls.append([passed, writer.node(result)])
        carried = {k: result if i is None else result[i] for k, i in states.items()}
    return {"name": name, "states": states, "calls": calls}


def _repeated(module: Any, name: str, steps: int) -> Callable[[Any], list[Any]]:
    fresh = getattr(module, f"fresh_{name}")
    return lambda rng: [fresh(rng) for _ in range(steps)]


def main(module_name: str, manifest_path: str, seed: str, steps: str, out: str) -> None:
    manifest = tomllib.loads(Path(manifest_path).read_text("utf-8"))
    if manifest.get("enable_x64"):
        jax.config.update("jax_enable_x64", True)
    module = importlib.import_module(module_name)
    writer = plain.Writer(one_level)
    names = sorted(manifest["entry_points"])
    document = [called(module, n, manifest, int(seed), int(steps), writer) for n in names]
    writer.save(Path(out), document)


if __name__ == "__main__":
    main(*sys.argv[1:])
