"""Results of a bundle without jax: `python server.py BUNDLE POLICY REFERENCE OUT`.

It makes the calls that `reference.py` recorded, with the same inputs, and writes its own results.
Classes that a server lacks are passed as docs/guides/serve.md says. States stay on the device.
"""

import collections
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import plain

import aotc_runtime
from aotc_runtime import DeviceArray, Record


def one_level(value: Any) -> tuple[str, Any]:
    """`plain.OneLevel` by the types that Python sees."""
    if value is None:
        return "none", None
    if isinstance(value, (np.ndarray, np.generic, DeviceArray)):
        return "leaf", value
    if isinstance(value, Record):
        fields: dict[str, Any] = object.__getattribute__(value, "_fields")
        return "record", (object.__getattribute__(value, "_type"), list(fields.items()))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = [(field, getattr(value, field)) for field in value._fields]
        return "named tuple", (type(value).__name__, named)
    if type(value) in {dict, list, tuple}:
        return type(value).__name__, value
    raise TypeError(f"a result holds {value!r}")


def built(node: plain.Node, leaves: list[Any]) -> Any:
    """The value that a node stands for, to be passed as an argument."""
    match node:
        case ["leaf", number]:
            return leaves[number]
        case ["number", value]:
            return value
        case ["none"]:
            return None
        case ["dict", children]:
            return {key: built(child, leaves) for key, child in children}
        case ["list", children]:
            return [built(child, leaves) for child in children]
        case ["tuple", children]:
            return tuple(built(child, leaves) for child in children)
        case ["named tuple", name, children]:
            class_ = collections.namedtuple(name, [field for field, _ in children])
            return class_(*(built(child, leaves) for _, child in children))
        case ["record", name, children]:
            return Record(name, {field: built(child, leaves) for field, child in children})
    raise ValueError(node)


def called(bundle: Any, recorded: Any, leaves: list[Any], writer: Any) -> list[plain.Node]:
    """The result of each call, its structure written before a later call may use it up."""
    entry_point, states = bundle[recorded["name"]], recorded["states"]
    call = entry_point.on_device if states else entry_point
    results, carried = [], {}
    for passed, _ in recorded["calls"]:
        result = call(**{k: built(node, leaves) for k, node in passed.items()}, **carried)
        results.append(writer.node(result))
        carried = {k: result if i is None else result[i] for k, i in states.items()}
    return results


def main(path: str, policy: str, reference: str, out: str) -> None:
    assert importlib.util.find_spec("jax") is None, "a server has no jax"
    document, leaves = plain.read(Path(reference))
    writer = plain.Writer(one_level)
    with aotc_runtime.load(path, trust=policy) as bundle:
        results = [called(bundle, recorded, leaves, writer) for recorded in document]
        assert bundle.report()["compilations"] == 0
        writer.save(Path(out), results)


if __name__ == "__main__":
    main(*sys.argv[1:])
