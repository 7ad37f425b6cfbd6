"""Manifests of the right types that contradict themselves."""

import json
from typing import Any

from ..tampering import Documents

LEAF = {"node": "leaf", "index": 0}


def pair(kind: str, type_: str, *fields: str) -> dict[str, Any]:
    return {"node": kind, "type": type_, "fields": list(fields), "items": [LEAF]}


CHIPS = {"family": "tpu", "topology": "v5e:2x2", "kinds": ["TPU v5e"]}
NEEDED = {"kinds": ["TPU v5e"], "memory_bytes": 1, "plugin": "libtpu", "accepts_plugin": ["1"]}


def numbered(keys: list[int], *more: Any, items: Any = (LEAF,)) -> Any:
    """The first parameter as a dict with integer keys; with a leaf for an item, and more."""

    def change(manifest: Any, entry_point: Any, _: Any) -> None:
        tree = {"node": "intdict", "keys": keys, "items": [*items, *more]}
        if not items:
            tree = {"node": "list", "items": [LEAF, tree]}
        entry_point["parameters"][0]["tree"] = tree

    return change


def asset(*paths: str, kind: str = "folder", version: str = "1.1", digest: str = "0" * 64) -> Any:
    """An asset with files of these paths, all of the same contents."""

    def change(manifest: Any, _: Any, __: Any) -> None:
        files = {path: {"digest": f"sha256:{digest}", "size": 1} for path in paths}
        manifest.update(format_version=version, assets={"a": {"kind": kind, "files": files}})

    return change


def weights_as_asset(manifest: Any, entry_point: Any, profile: Any) -> None:
    (weights, *_) = manifest["weights"].values()
    digest = weights["blobs"][0]["digest"].removeprefix("sha256:")
    asset("a", digest=digest)(manifest, entry_point, profile)


CONTRADICTIONS: dict[str, Any] = {
    "assets before format 1.1": asset("a", version="1.0"),
    "no assets": lambda m, e, p: m.update(format_version="1.1", assets={}),
    "an asset without files": asset(),
    "a file asset of two files": asset("a", "b", kind="file"),
    "a file asset in a folder": asset("a/b", kind="file"),
    "asset paths that differ by case": asset("a/b", "a/B"),
    "asset folders that differ by case": asset("a/b", "A/c"),
    "an asset path that is a folder, too": asset("a", "a/b"),
    "weights as an asset": weights_as_asset,
    "no entry point": lambda m, e, p: m.update(entry_points={}),
    "no profile": lambda m, e, p: e.update(profiles=[]),
    "two profiles alike": lambda m, e, p: e["profiles"].append(p),
    "an input leaf that is none": lambda m, e, p: e["parameters"][0]["tree"].update(index=1),
    "a negative leaf": lambda m, e, p: e["parameters"][0]["tree"].update(index=-1),
    "an output leaf that is none": lambda m, e, p: e.update(result={"node": "leaf", "index": 2}),
    "outputs that no leaf names": lambda m, e, p: e.update(result=LEAF),
    "an input that no leaf names": lambda m, e, p: e.update(parameters=[]),
    "a parameter twice": lambda m, e, p: e["parameters"].append(
        {**e["parameters"][0], "tree": {"node": "none"}}
    ),
    "a parameter that is no name": lambda m, e, p: e["parameters"][0].update(name="a b"),
    "a parameter that is a keyword": lambda m, e, p: e["parameters"][0].update(name="def"),
    "parameters out of order": lambda m, e, p: e["parameters"].extend(
        [
            {"name": "a", "kind": "keyword_only", "tree": {"node": "none"}, "donated": False},
            {"name": "b", "kind": "positional_only", "tree": {"node": "none"}, "donated": False},
        ]
    ),
    "fields without items": lambda m, e, p: e["parameters"][0].update(
        tree=pair("record", "T", "a", "b")
    ),
    "fewer integer keys than items": numbered([]),
    "more integer keys than items": numbered([0, 1]),
    "integer keys that descend": numbered([1, 0], {"node": "none"}),
    "an integer key twice": numbered([0, 0], {"node": "none"}),
    "no integer keys": numbered([], items=()),
    "a field twice": lambda m, e, p: e["parameters"][0].update(
        tree={
            "node": "record",
            "type": "T",
            "fields": ["a", "a"],
            "items": [LEAF, {"node": "none"}],
        }
    ),
    "fields that are no names": lambda m, e, p: e["parameters"][0].update(
        tree=pair("namedtuple", "T", "a b")
    ),
    "a type that is no name": lambda m, e, p: e["parameters"][0].update(
        tree=pair("namedtuple", "T\n", "a")
    ),
    "a hidden field": lambda m, e, p: e["parameters"][0].update(tree=pair("namedtuple", "T", "_a")),
    "a hidden field further in": lambda m, e, p: e["parameters"][0].update(
        tree={"node": "list", "items": [pair("namedtuple", "T", "_a")]}
    ),
    "weights without a blob": lambda m, e, p: m["weights"]["params"].update(blobs=[]),
    "a blob twice": lambda m, e, p: m["weights"]["params"].update(
        blobs=m["weights"]["params"]["blobs"] * 2
    ),
    "a tensor twice": lambda m, e, p: m["weights"]["params"].update(
        tensors=m["weights"]["params"]["tensors"] * 2
    ),
    "too few input shapes": lambda m, e, p: p.update(input_shapes=[]),
    "too many output shapes": lambda m, e, p: p["output_shapes"].append([1]),
    "keys that are no uint32": lambda m, e, p: (
        e["inputs"][0].update(key_impl="rbg", shape=["batch", 4]),
        [profile.update(input_shapes=[[n, 4]]) for n, profile in enumerate(e["profiles"])],
    ),
    "keys whose shape is no shape of data": lambda m, e, p: (
        e["inputs"][0].update(key_impl="rbg", dtype="uint32"),
        [profile.update(input_shapes=[[n, 4]]) for n, profile in enumerate(e["profiles"])],
    ),
    "input keys of another shape": lambda m, e, p: e["inputs"][0].update(
        key_impl="rbg", dtype="uint32", shape=["batch", 4]
    ),
    "output keys of another shape": lambda m, e, p: e["outputs"][0].update(
        key_impl="unsafe_rbg", dtype="uint32", shape=["batch", 4]
    ),
    "a platform that is not the required one": lambda m, e, p: m["requires"].update(platform="tpu"),
    "an accelerator that is none": lambda m, e, p: (
        m["target"].update(platform="cuda") or m["requires"].update(platform="cuda")
    ),
    "a CPU with a device": lambda m, e, p: (
        m["target"].update(device=CHIPS) or m["requires"].update(device=NEEDED)
    ),
    "a device that a host need not have": lambda m, e, p: (
        m["requires"].pop("device", None),
        m["target"].update(platform="tpu", device=CHIPS),
        m["requires"].update(platform="tpu"),
    ),
    "another engine of which a host need have nothing": lambda m, e, p: (
        m["requires"].pop("device", None),
        m["target"].update(platform="iree"),
        m["requires"].update(platform="iree"),
    ),
    "another engine whose platform is not the required one": lambda m, e, p: (
        m["target"].update(platform="iree-vulkan")
        or m["requires"].update(platform="iree", device=NEEDED)
    ),
    "another engine with a device of XLA's": lambda m, e, p: (
        m["target"].update(platform="iree", device=CHIPS)
        or m["requires"].update(platform="iree", device=NEEDED)
    ),
    "an argument that is no input": lambda m, e, p: p["arguments"][-1].update(leaf=1),
    "an argument of no weights set": lambda m, e, p: p["arguments"][0].update(set="other"),
    "an argument that is no tensor": lambda m, e, p: p["arguments"][0].update(tensor="other"),
}


PAD = {"policy": "pad", "fill": {}, "mask": "", "length": "", "proof": []}
SPLIT = {"policy": "split", "proof": []}
COMPILE = {"policy": "compile", "most": 1, "seconds": 1}
REF = {"digest": "sha256:" + "0" * 64, "size": 1}


def policy(**change: Any) -> dict[str, Any]:
    return {"batch": PAD | change}


def extra_input(e: dict[str, Any], p: dict[str, Any], dtype: str, shape: list[Any]) -> None:
    """A parameter `extra` with one array."""
    e["inputs"].append({"path": "extra", "dtype": dtype, "shape": shape, "weak_type": False})
    tree = {"node": "leaf", "index": len(e["inputs"]) - 1}
    kind = e["parameters"][-1]["kind"]
    e["parameters"].append({"name": "extra", "kind": kind, "tree": tree, "donated": False})
    for profile in e["profiles"]:
        batch = profile["sizes"]["batch"]
        profile["input_shapes"].append([batch if axis == "batch" else axis for axis in shape])


def supplied(key: str, dtype: str, shape: list[Any], **parameter: Any) -> Any:
    """A mask or a length that is no such thing."""

    def change(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
        extra_input(e, p, dtype, shape)
        e["parameters"][-1].update(parameter)
        e.update(out_of_profile=policy(**{key: "extra"}))

    return change


def both(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
    extra_input(e, p, "int32", [])
    e.update(out_of_profile=policy(mask="extra", length="extra"))


def two_dimensions(e: dict[str, Any], **pads: Any) -> None:
    """The images have any number of columns, too. pads: of both dimensions."""
    e["dimensions"] = sorted([*e["dimensions"], "seq"])
    e["inputs"][0]["shape"] = ["batch", "seq"]
    for profile in e["profiles"]:
        profile["sizes"]["seq"] = profile["input_shapes"][0][1]
    e.update(out_of_profile={name: PAD | pad for name, pad in pads.items()})


def two_lengths(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
    m["dimensions"]["seq"] = m["dimensions"]["batch"]
    two_dimensions(e, batch={"length": "extra"}, seq={"length": "extra"})
    extra_input(e, p, "int32", [])


def two_fills(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
    m["dimensions"]["seq"] = m["dimensions"]["batch"]
    path = e["inputs"][0]["path"]
    two_dimensions(e, batch={"fill": {path: "0"}}, seq={"fill": {path: "1"}})


def told_by_nothing(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
    """Only a mask has the dimension, and callers pass no masks."""
    extra_input(e, p, "bool", ["batch"])
    e["inputs"][0]["shape"] = [8, 64]
    e["profiles"] = [profile for profile in e["profiles"] if profile["sizes"]["batch"] == 8]
    e.update(out_of_profile=policy(mask="extra"))


def alike_without_masks(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
    told_by_nothing(m, e, p)
    other = json.loads(json.dumps(e["profiles"][0]))
    other["sizes"]["batch"] = 4
    other["input_shapes"][-1] = [4]
    other["output_shapes"] = [[4, *shape[1:]] for shape in other["output_shapes"]]
    e["profiles"].append(other)


def compiling(**change: Any) -> Any:
    symbolic = {"module": REF, "arguments": []} | change
    return lambda m, e, p: e.update(out_of_profile={"batch": COMPILE}, symbolic=symbolic)


def an_axis(which: str, axis: Any) -> Any:
    return lambda m, e, p: e[which][0]["shape"].__setitem__(0, axis)


def with_policy(chosen: dict[str, Any], change: Any) -> Any:
    def both_of_them(m: dict[str, Any], e: dict[str, Any], p: dict[str, Any]) -> None:
        e.update(out_of_profile={"batch": chosen})
        change(m, e, p)

    return both_of_them


CONTRADICTIONS |= {
    "a sharding without a mesh": lambda m, e, p: e["inputs"][0].update(sharding=[[], ["data"]]),
    "a dimension that the bundle has not": lambda m, e, p: m["dimensions"].clear(),
    "an axis that is no expression": an_axis("inputs", "batch+"),
    "a dimension whose name is an expression": lambda m, e, p: (
        m["dimensions"].update({"2*batch": m["dimensions"]["batch"]}),
        e.update(dimensions=sorted([*e["dimensions"], "2*batch"])),
        [each["sizes"].update({"2*batch": 1}) for each in e["profiles"]],
    ),
    "an axis over another dimension": an_axis("outputs", "seq"),
    "an axis of ten thousand factors": an_axis("inputs", "*".join(["batch"] * 10_000)),
    "a relation that is none": lambda m, e, p: e.update(relations=["batch < 8"]),
    "a relation over another dimension": lambda m, e, p: e.update(relations=["seq <= 8"]),
    "a profile without a size": lambda m, e, p: p["sizes"].clear(),
    "a profile of another dimension": lambda m, e, p: p["sizes"].update(seq=1),
    "a profile of other shapes": lambda m, e, p: p["input_shapes"][0].__setitem__(0, 3),
    "outputs of other shapes": lambda m, e, p: p["output_shapes"][0].__setitem__(0, 3),
    "outputs with another number of axes": lambda m, e, p: p["output_shapes"][0].append(3),
    "a policy for another dimension": lambda m, e, p: e.update(out_of_profile={"seq": PAD}),
    "a policy and an axis that nobody knows": with_policy(PAD, an_axis("outputs", "?")),
    "a policy for a dimension that no caller tells": told_by_nothing,
    "profiles that differ in a mask": alike_without_masks,
    "a fill of nothing": lambda m, e, p: e.update(out_of_profile=policy(fill={"other": "0"})),
    "a fill that is no number": lambda m, e, p: e.update(
        out_of_profile=policy(fill={"image": "__import__('os')"})
    ),
    "a mask that is no parameter": lambda m, e, p: e.update(out_of_profile=policy(mask="other")),
    "a mask of integers": supplied("mask", "int32", ["batch"]),
    "a mask without the dimension": supplied("mask", "bool", [3]),
    "a mask that is donated": supplied("mask", "bool", ["batch"], donated=True),
    "a mask that is a list": supplied(
        "mask", "bool", ["batch"], tree={"node": "list", "items": [{"node": "leaf", "index": 1}]}
    ),
    "a length that is no parameter": lambda m, e, p: e.update(
        out_of_profile=policy(length="other")
    ),
    "a length of floats": supplied("length", "float32", []),
    "a length with an axis": supplied("length", "int32", [1]),
    "a mask that is a length": both,
    "two dimensions with one length": two_lengths,
    "two dimensions with two fills for one array": two_fills,
    "a split along two axes": with_policy(
        SPLIT, lambda m, e, p: e["outputs"][0]["shape"].__setitem__(-1, "batch+0*batch")
    ),
    "a split of an axis that is a multiple": with_policy(SPLIT, an_axis("inputs", "1*batch")),
    "a policy that compiles nothing": lambda m, e, p: e.update(out_of_profile={"batch": COMPILE}),
    "a symbolic module for nothing": lambda m, e, p: e.update(
        symbolic={"module": REF, "arguments": []}
    ),
    "a symbolic argument that is no input": compiling(
        arguments=[{"from": "input", "leaf": 9, "aliased": False}]
    ),
    "a symbolic argument of no weights set": compiling(
        arguments=[{"from": "weight", "set": "other", "tensor": "x"}]
    ),
}


def contradict(documents: Documents, name: str) -> None:
    entry_point = documents.manifest["entry_points"]["predict"]
    CONTRADICTIONS[name](documents.manifest, entry_point, documents.profile)
