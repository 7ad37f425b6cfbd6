"""Well-spelled documents, signed by a trusted key, that say what no bundle says."""

import json
from collections.abc import Callable
from typing import Any

from aotc_runtime.base import limits

from ..tampering import INDEX, MANIFEST, Documents, Target, digest_of, flipped, swap_layer, to_json
from .case import Case, changed
from .contradictions import CONTRADICTIONS, asset, contradict

EXECUTABLE = "application/vnd.aotc.executable.v1"
WEIGHTS = "application/vnd.aotc.weights.v1+safetensors"


def layer(documents: Documents, data: bytes, media_type: str = EXECUTABLE) -> None:
    """One more layer, in its place."""
    reference = {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}
    documents.image["layers"].append(reference)
    documents.image["layers"].sort(key=lambda layer: layer["digest"])
    documents.layers[digest_of(data)] = data


def second_target(change: Callable[[dict[str, Any]], object]) -> Callable[[Documents], None]:
    def edit(documents: Documents) -> None:
        second = json.loads(to_json([documents.image, documents.manifest]))
        change(second[1])
        documents.targets.append(Target(*second))
        documents.root["manifests"].append(dict(documents.root["manifests"][0]))

    return edit


def no_targets(documents: Documents) -> None:
    documents.root["manifests"], documents.targets, documents.layers = [], [], {}


def another_layer(field: str) -> Callable[[Documents], None]:
    """The image refers to other bytes than the bundle manifest does."""

    def edit(documents: Documents) -> None:
        manifest = json.loads(to_json(documents.manifest))
        digest = documents.profile[field]["digest"]
        swap_layer(documents, digest, flipped(documents.layers[digest]))
        documents.targets[0].manifest = manifest

    return edit


def no_layer(documents: Documents) -> None:
    del documents.layers[documents.image["layers"].pop()["digest"]]


def wrong_everywhere(documents: Documents) -> None:
    digest = documents.profile["executable"]["digest"]
    documents.profile["executable"]["size"] += 1
    for reference in documents.image["layers"]:
        reference["size"] += reference["digest"] == digest


def another_size_in_a_target(documents: Documents) -> None:
    second_target(lambda manifest: manifest["target"].update(name="other"))(documents)
    wrong_everywhere(documents)


def deep(levels: int) -> Callable[[Documents], None]:
    def edit(documents: Documents) -> None:
        tree: dict[str, Any] = {"node": "leaf", "index": 0}
        for _ in range(levels):
            tree = {"node": "tuple", "items": [tree]}
        documents.manifest["entry_points"]["predict"]["result"] = tree

    return edit


def entry_point(**change: Any) -> Callable[[Documents], None]:
    return lambda d: d.manifest["entry_points"]["predict"].update(change)


IMAGES: dict[str, tuple[str, Callable[[Documents], object]]] = {
    "root: artifact of another type": (
        "AOTC-E113",
        lambda d: d.root.update(artifactType="application/x"),
    ),
    "root: artifact of the images' type": (
        "AOTC-E113",
        lambda d: d.root.update(artifactType="application/vnd.aotc.bundle.v1"),
    ),
    "root: artifacts of a type and itself of none": (
        "AOTC-E113",
        lambda d: d.root["manifests"][0].update(artifactType="application/vnd.aotc.bundle.v1"),
    ),
    "root: no targets": ("AOTC-E113", no_targets),
    "root: another media type": ("AOTC-E101", lambda d: d.root.update(mediaType=MANIFEST)),
    "root: data inline": ("AOTC-E101", lambda d: d.root["manifests"][0].update(data="e30=")),
    "root: a target twice": ("AOTC-E116", second_target(lambda m: None)),
    "root: two versions": (
        "AOTC-E116",
        second_target(lambda m: (m["target"].update(name="other"), m.update(version="2.0.0"))),
    ),
    "root: two names": (
        "AOTC-E116",
        second_target(lambda m: (m["target"].update(name="other"), m.update(name="vision"))),
    ),
    "image: another media type": ("AOTC-E101", lambda d: d.image.update(mediaType=INDEX)),
    "image: artifact of another type": (
        "AOTC-E101",
        lambda d: d.image.update(artifactType="application/x"),
    ),
    "image: a config of another type": (
        "AOTC-E101",
        lambda d: d.image["config"].update(mediaType="application/vnd.oci.image.config.v1+json"),
    ),
    "image: a subject": (
        "AOTC-E101",
        lambda d: d.image.update(subject=dict(d.root["manifests"][0])),
    ),
    "image: no layers": ("AOTC-E205", lambda d: (d.image.update(layers=[]), d.layers.clear())),
    "image: a layer of an unknown type": (
        "AOTC-E205",
        lambda d: d.image["layers"][0].update(mediaType="application/x-pickle"),
    ),
    "image: a layer of another type": (
        "AOTC-E205",
        lambda d: d.image["layers"][0].update(mediaType=WEIGHTS),
    ),
    "image: a layer of another size": (
        "AOTC-E205",
        lambda d: d.image["layers"][0].update(size=d.image["layers"][0]["size"] + 1),
    ),
    "image: a layer of 1 TiB": ("AOTC-E205", lambda d: d.image["layers"][0].update(size=2**40)),
    "image: a layer twice": (
        "AOTC-E205",
        lambda d: d.image["layers"].insert(0, d.image["layers"][0]),
    ),
    "image: a layer of two sizes in two targets": ("AOTC-E205", another_size_in_a_target),
    "image: layers in another order": ("AOTC-E205", lambda d: d.image["layers"].reverse()),
    "image: a layer that the manifest does not know": ("AOTC-E205", lambda d: layer(d, b"x")),
    "image: a layer that is missing": ("AOTC-E205", no_layer),
    "image: other weights": ("AOTC-E205", another_layer("module")),
    "image: another executable": ("AOTC-E205", another_layer("executable")),
    "image: another fixture": ("AOTC-E205", another_layer("fixture")),
    "a blob of two sizes": (
        "AOTC-E205",
        lambda d: asset("a", digest=d.profile["module"]["digest"][7:])(d.manifest, None, None),
    ),
    "a size that is wrong everywhere": ("AOTC-E203", wrong_everywhere),
}

BUNDLES: dict[str, tuple[str, Callable[[Documents], object]]] = {
    **{
        f"format version {version!r}": (
            "AOTC-E115",
            lambda d, version=version: d.manifest.update(format_version=version),
        )
        for version in ("1.2", "2.0", "0.9", "1", "1.", "1.0.0", "1.²", "1.٠", "1.00", "1.-1", "")
    },
    "a later format with new fields": (
        "AOTC-E115",
        lambda d: d.manifest.update(format_version="1.2", a_new_field=1),
    ),
    **{
        f"an asset at {path!r}": (
            "AOTC-E101",
            lambda d, path=path: asset(path)(d.manifest, None, None),
        )
        for path in (
            "../a",
            "/a",
            "a//b",
            "a/../b",
            ".a",
            "a\n",
            "-a",
            "ä",
            "a" * 129,
            "a/" * 16 + "a",
        )
    },
    "an asset whose name is no identifier": (
        "AOTC-E101",
        lambda d: d.manifest.update(
            format_version="1.1", assets={"a/b": {"kind": "folder", "files": {}}}
        ),
    ),
    "an unknown field": ("AOTC-E101", lambda d: d.manifest.update(plugin="os:system")),
    "a name with a new line": ("AOTC-E101", lambda d: d.manifest.update(name="digits\n")),
    "an unknown policy": ("AOTC-E101", entry_point(out_of_profile={"batch": {"policy": "guess"}})),
    "an unknown kind of tree": ("AOTC-E101", entry_point(result={"node": "pickle", "data": ""})),
    "an integer key of 65 bits": (
        "AOTC-E101",
        entry_point(result={"node": "intdict", "keys": [2**64], "items": [{"node": "none"}]}),
    ),
    "a shape of 2^63": ("AOTC-E101", lambda d: d.profile["input_shapes"][0].__setitem__(0, 2**63)),
    "a tree deeper than the limit": ("AOTC-E118", deep(limits.TREE_DEPTH_MAX)),
    "a tree deeper than Python's stack": ("AOTC-E118", deep(700)),
}

MANIFESTS: tuple[Case, ...] = (
    *(changed(name, code, change) for name, (code, change) in IMAGES.items()),
    *(
        changed(f"bundle manifest: {name}", code, change)
        for name, (code, change) in BUNDLES.items()
    ),
    *(
        changed(f"contradiction: {name}", "AOTC-E118", lambda d, name=name: contradict(d, name))
        for name in CONTRADICTIONS
    ),
)
