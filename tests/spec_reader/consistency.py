"""The table "Consistency" of docs/reference/bundle-format.md, as far as every bundle has its parts.

Rules on meshes, several engines, metrics, element types of precisions, and most on policies are
left out.
"""

import keyword
import re
from collections.abc import Iterator
from math import prod
from typing import Any

from .documents import reject_if

DIMENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FACTOR = "(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,18})"
_TERM = rf"{_FACTOR}(?:\*{_FACTOR})*"
EXPRESSION = re.compile(rf"-?{_TERM}(?:[+-]{_TERM}){{0,63}}")
KINDS = ("positional_only", "positional_or_keyword", "keyword_only")
KEY_WORDS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}


def contradiction_if(is_wrong: object, what: str) -> None:
    """Reject a bundle manifest where something in it contradicts the rest."""
    reject_if(is_wrong, "E118", what)


def check(m: dict[str, Any]) -> None:
    """Reject a bundle manifest that contradicts itself."""
    is_first = m["format_version"] == "1.0"
    for name, weights in m["weights"].items():
        digests = [ref["digest"] for ref in weights["blobs"]]
        tensors = [tensor["name"] for tensor in weights["tensors"]]
        contradiction_if(not digests or _repeats(digests) or _repeats(tensors), f"weights {name}")
        packed = [tensor["dtype"] for tensor in weights["tensors"] if "packed" in tensor]
        contradiction_if(packed and (is_first or {*packed} != {"uint8"}), f"packed weights {name}")
    if "assets" in m:
        contradiction_if(is_first or not m["assets"], "assets")
        blobs = {ref["digest"] for each in m["weights"].values() for ref in each["blobs"]}
        for asset in m["assets"].values():
            _check_asset(asset, blobs)
    platform, has_device = m["target"]["platform"], "device" in m["target"]
    family = m["target"]["device"]["family"] if has_device else "cpu"
    is_xla = platform in ("cpu", "cuda", "tpu")
    contradiction_if(platform != m["requires"]["platform"], "platform")
    contradiction_if((is_xla and family != platform) or has_device > is_xla, "device")
    contradiction_if(("device" in m["requires"]) != (has_device or not is_xla), "requirements")
    contradiction_if(not m["entry_points"], "no entry points")
    for entry in m["entry_points"].values():
        _check_entry_point(m, entry)


def _repeats(values: list[Any]) -> bool:
    return len({*map(str, values)}) < len(values)


def _check_asset(asset: dict[str, Any], weights: set[str]) -> None:
    paths = [path.split("/") for path in asset["files"]]
    is_one_file = [len(path) for path in paths] == [1]
    contradiction_if(not paths or (asset["kind"] == "file" and not is_one_file), "number of files")
    folders = {tuple(path[:end]) for path in paths for end in range(1, len(path))}
    spelled = [*folders, *map(tuple, paths)]
    contradiction_if(_repeats(["/".join(path).lower() for path in spelled]), "paths")
    contradiction_if(any(ref["digest"] in weights for ref in asset["files"].values()), "weights")


def _check_entry_point(m: dict[str, Any], entry: dict[str, Any]) -> None:
    parameters, profiles = entry["parameters"], entry["profiles"]
    inputs = [leaf for each in parameters for leaf in _leaves(each["tree"])]
    contradiction_if(inputs != [*range(len(entry["inputs"]))], "inputs")
    contradiction_if([*_leaves(entry["result"])] != [*range(len(entry["outputs"]))], "outputs")
    names = [parameter["name"] for parameter in parameters]
    kinds = [KINDS.index(parameter["kind"]) for parameter in parameters]
    contradiction_if(not all(map(_is_name, names)) or _repeats(names), "names")
    contradiction_if(kinds != sorted(kinds), "order of parameters")
    shapes = [profile["input_shapes"] for profile in profiles]
    contradiction_if(not profiles or _repeats(shapes), "profiles")
    rounded = [each for each in profiles if "activations" in each.get("precision", {})]
    contradiction_if(rounded and m["format_version"] == "1.0", "activations")
    known = {(n, t["name"]) for n, each in m["weights"].items() for t in each["tensors"]}
    taking = [*profiles, *([entry["symbolic"]] if "symbolic" in entry else [])]
    for argument in (argument for each in taking for argument in each["arguments"]):
        if argument["from"] == "weight":
            is_known = (argument["set"], argument["tensor"]) in known
        else:
            is_known = argument["leaf"] < len(entry["inputs"])
        contradiction_if(not is_known, "arguments")
    policies, dimensions = entry["out_of_profile"], {*entry["dimensions"]}
    compiles = any(policy["policy"] == "compile" for policy in policies.values())
    contradiction_if(compiles != ("symbolic" in entry), "symbolic")
    contradiction_if(not policies.keys() <= dimensions <= m["dimensions"].keys(), "dimensions")
    contradiction_if(not all(map(DIMENSION.fullmatch, dimensions)), "names of dimensions")
    _check_sizes(entry)


def _leaves(tree: dict[str, Any], depth: int = 1) -> Iterator[int]:
    """Yield the leaves of a tree in their order."""
    contradiction_if(depth > 256, "levels")
    node, items = tree["node"], tree.get("items", [])
    if node == "leaf":
        yield tree["index"]
    if node == "dict":
        items = [items[name] for name in sorted(items)]
    if node == "intdict":
        keys = tree["keys"]
        contradiction_if(len(keys) != len(items) or keys != sorted({*keys}) or not keys, "keys")
    fields = tree.get("fields", [])
    contradiction_if("fields" in tree and len(fields) != len(items), "number of fields")
    contradiction_if(_repeats(fields), "fields")
    if node == "namedtuple":
        contradiction_if(not all(map(_is_name, [*fields, tree["type"]])), "names of fields")
        contradiction_if(any(field.startswith("_") for field in fields), "names of fields")
    for item in items:
        yield from _leaves(item, depth + 1)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _value(text: str | int, sizes: dict[str, int]) -> int:
    """Return the value of an expression over dimensions."""
    if isinstance(text, int):
        return text
    contradiction_if(len(text) > 1024 or not EXPRESSION.fullmatch(text), text)
    total = 0
    for sign, product in re.findall(r"([+-]?)([^+-]+)", text):
        factors = product.split("*")
        contradiction_if(any(each not in sizes and not each.isdigit() for each in factors), text)
        total += int(f"{sign}1") * prod(sizes.get(each) or int(each) for each in factors)
    return total


def _check_sizes(entry: dict[str, Any]) -> None:
    tensors = [*entry["inputs"], *entry["outputs"]]
    ones = dict.fromkeys(entry["dimensions"], 1)
    for axis in (axis for tensor in tensors for axis in tensor["shape"]):
        _value(1 if axis == "?" else axis, ones)
    for relation in entry["relations"]:
        sides = re.split(" (?:<=|>=|==) ", relation)
        contradiction_if(len(sides) != 2, relation)
        _value(sides[0], ones), _value(sides[1], ones)
    for profile in entry["profiles"]:
        sizes, shapes = profile["sizes"], [*profile["input_shapes"], *profile["output_shapes"]]
        contradiction_if(len(profile["input_shapes"]) != len(entry["inputs"]), "input shapes")
        contradiction_if(len(shapes) != len(tensors) or sizes.keys() != ones.keys(), "sizes")
        for tensor, shape in zip(tensors, shapes, strict=True):
            contradiction_if(len(shape) != len(tensor["shape"]), "axes")
            for axis, size in zip(tensor["shape"], shape, strict=True):
                contradiction_if(axis != "?" and _value(axis, sizes) != size, "a size")
            if "key_impl" in tensor:
                words = KEY_WORDS[tensor["key_impl"]]
                contradiction_if((tensor["dtype"], shape[-1:]) != ("uint32", [words]), "keys")
