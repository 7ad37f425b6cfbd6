"""The table "Consistency" of docs/reference/bundle-format.md, as far as every bundle has its parts.

Rules on meshes, several engines, metrics, precisions, and most on policies are left out.
"""

import keyword
import re
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

DIMENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
KINDS = ("positional_only", "positional_or_keyword", "keyword_only")


def contradictions(m: dict[str, Any]) -> Iterator[str]:
    """Yield what a bundle manifest contradicts itself in [E118]."""
    yield from _assets(m)
    for name, weights in m["weights"].items():
        digests = [ref["digest"] for ref in weights["blobs"]]
        tensors = [tensor["name"] for tensor in weights["tensors"]]
        if not digests or len({*digests}) < len(digests) or len({*tensors}) < len(tensors):
            yield f"weights {name}"
    platform, has_device = m["target"]["platform"], "device" in m["target"]
    family = m["target"]["device"]["family"] if has_device else "cpu"
    is_xla = platform in ("cpu", "cuda", "tpu")
    if platform != m["requires"]["platform"] or (is_xla and family != platform):
        yield "platform"
    if ("device" in m["requires"]) != (has_device if is_xla else True) or has_device > is_xla:
        yield "device"
    if not m["entry_points"]:
        yield "no entry points"
    for name, entry in m["entry_points"].items():
        yield from (f"{name}: {what}" for what in _entry_point(m, entry))


def _assets(m: dict[str, Any]) -> Iterator[str]:
    if "assets" not in m:
        return
    weights = {ref["digest"] for each in m["weights"].values() for ref in each["blobs"]}
    if m["format_version"] == "1.0" or not m["assets"]:
        yield "assets"
    for name, asset in m["assets"].items():
        paths = [path.split("/") for path in asset["files"]]
        if not paths or (asset["kind"] == "file" and [len(path) for path in paths] != [1]):
            yield f"files of asset {name}"
        folders = {tuple(path[:end]) for path in paths for end in range(1, len(path))}
        spelled = [*folders, *(tuple(path) for path in paths)]
        if len({tuple(part.lower() for part in path) for path in spelled}) < len(spelled):
            yield f"paths of asset {name}"
        if any(ref["digest"] in weights for ref in asset["files"].values()):
            yield f"weights in asset {name}"


def _entry_point(m: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    parameters, profiles = entry["parameters"], entry["profiles"]
    trees = [parameter["tree"] for parameter in parameters]
    leaves: dict[str, list[int]] = {"inputs": [], "outputs": []}
    try:
        for tree in trees:
            _walk(tree, leaves["inputs"])
        _walk(entry["result"], leaves["outputs"])
    except ValueError as error:
        yield str(error)
        return
    for side, found in leaves.items():
        if found != [*range(len(entry[side]))]:
            yield f"leaves of {side}"
    names = [parameter["name"] for parameter in parameters]
    kinds = [KINDS.index(parameter["kind"]) for parameter in parameters]
    if not all(map(_is_name, names)) or len({*names}) < len(names) or kinds != sorted(kinds):
        yield "parameters"
    shapes = [profile["input_shapes"] for profile in profiles]
    if not profiles or any(shape in shapes[:n] for n, shape in enumerate(shapes)):
        yield "profiles"
    known = {(n, t["name"]) for n, each in m["weights"].items() for t in each["tensors"]}
    taking = [*profiles, *([entry["symbolic"]] if "symbolic" in entry else [])]
    for argument in (a for each in taking for a in each["arguments"]):
        if argument["from"] == "weight" and (argument["set"], argument["tensor"]) not in known:
            yield "a weight"
        if argument["from"] == "input" and argument["leaf"] >= len(entry["inputs"]):
            yield "an input"
    policies = entry["out_of_profile"]
    compiles = any(policy["policy"] == "compile" for policy in policies.values())
    if not policies.keys() <= {*entry["dimensions"]} or compiles != ("symbolic" in entry):
        yield "policies"
    yield from _sizes(m, entry)


def _walk(tree: dict[str, Any], leaves: list[int], depth: int = 1) -> None:
    """Collect the leaves of a tree. Raises ValueError for one that no reader takes."""
    if depth > 256:
        raise ValueError("levels")
    if tree["node"] == "leaf":
        leaves.append(tree["index"])
    items = tree.get("items", [])
    if tree["node"] == "dict":
        items = [items[name] for name in sorted(items)]
    if "keys" in tree:
        keys = tree["keys"]
        if len(keys) != len(items) or not keys or any(a >= b for a, b in pairwise(keys)):
            raise ValueError("keys")
    if "fields" in tree:
        fields = tree["fields"]
        if len(fields) != len(items) or len({*fields}) < len(fields):
            raise ValueError("fields")
        if tree["node"] == "namedtuple" and not (
            all(map(_is_name, [*fields, tree["type"]])) and not any(f[0] == "_" for f in fields)
        ):
            raise ValueError("names of fields")
    for item in items:
        _walk(item, leaves, depth + 1)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _value(text: str, sizes: dict[str, int]) -> int:
    """Return the value of a size. Raises ValueError for no size over these dimensions."""
    terms = re.findall(r"([+-]?)([^+-]+)", text)
    if not terms or "".join(map("".join, terms)) != text:
        raise ValueError(text)
    return sum(
        int(f"{sign}1") * prod(_factor(each, sizes) for each in product.split("*"))
        for sign, product in terms
    )


def _factor(text: str, sizes: dict[str, int]) -> int:
    if text not in sizes and not text.isdecimal():
        raise ValueError(text)
    return sizes[text] if text in sizes else int(text)


def _sizes(m: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    names, tensors = entry["dimensions"], [*entry["inputs"], *entry["outputs"]]
    ones = dict.fromkeys(names, 1)
    if not {*names} <= m["dimensions"].keys() or not all(map(DIMENSION.fullmatch, names)):
        yield "dimensions"
    try:
        for axis in (axis for tensor in tensors for axis in tensor["shape"]):
            if isinstance(axis, str) and axis != "?":
                _value(axis, ones)
        for relation in entry["relations"]:
            operator = next((o for o in ("<=", ">=", "==") if o in relation), "?")
            for side in relation.split(operator):
                _value(side.strip(), ones)
    except ValueError as error:
        yield f"an expression: {error}"
        return
    for profile in entry["profiles"]:
        shapes = [*profile["input_shapes"], *profile["output_shapes"]]
        if len(profile["input_shapes"]) != len(entry["inputs"]) or len(shapes) != len(tensors):
            yield "number of shapes"
            continue
        if profile["sizes"].keys() != {*names}:
            yield "sizes"
            continue
        for tensor, shape in zip(tensors, shapes, strict=True):
            wanted = [
                s if a == "?" else _value(str(a), profile["sizes"])
                for a, s in zip(tensor["shape"], shape, strict=False)
            ]
            if len(shape) != len(tensor["shape"]) or wanted != shape:
                yield "a shape"
            words = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}.get(tensor.get("key_impl", ""))
            if words and (tensor["dtype"] != "uint32" or shape[-1:] != [words]):
                yield "random keys"
