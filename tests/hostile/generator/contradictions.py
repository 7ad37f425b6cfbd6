"""Manifests of the right types that contradict themselves."""

from __future__ import annotations

from typing import Any

from ..tampering import Documents

LEAF = {"node": "leaf", "index": 0}


def pair(kind: str, type_: str, *fields: str) -> dict[str, Any]:
    return {"node": kind, "type": type_, "fields": list(fields), "items": [LEAF]}


CONTRADICTIONS: dict[str, Any] = {
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
    "an argument that is no input": lambda m, e, p: p["arguments"][-1].update(leaf=1),
    "an argument of no weights set": lambda m, e, p: p["arguments"][0].update(set="other"),
    "an argument that is no tensor": lambda m, e, p: p["arguments"][0].update(tensor="other"),
}


def contradict(documents: Documents, name: str) -> None:
    entry_point = documents.manifest["entry_points"]["predict"]
    CONTRADICTIONS[name](documents.manifest, entry_point, documents.profile)
