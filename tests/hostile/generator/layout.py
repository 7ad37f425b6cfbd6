"""`oci-layout` and `index.json`, which nobody signs: spelled badly, or pointing elsewhere."""

import json
from collections.abc import Callable
from typing import Any

from aotc_runtime.base import limits

from ..tampering import INDEX, MANIFEST, MemoryBundle, digest_of, roles, to_json
from .case import Case, Kit, contents

ZEROS = "sha256:" + "0" * 64


def file(name: str, change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    return lambda kit: kit.bundle.with_file(name, change(kit.bundle.files[name]))


def index(change: Callable[[dict[str, Any]], object]) -> Callable[[Kit], MemoryBundle]:
    def edit(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return to_json(document)

    return file("index.json", edit)


def root(**change: Any) -> Callable[[Kit], MemoryBundle]:
    return index(lambda document: document["manifests"][0].update(change))


def entries(change: Callable[[list[Any]], list[Any]]) -> Callable[[Kit], MemoryBundle]:
    return index(lambda document: document.update(manifests=change(document["manifests"])))


def entry(media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": ZEROS, "size": 1}


def raw(value: bytes) -> Callable[[bytes], bytes]:
    """Another field of the document, with any text for its value."""
    return lambda data: data[:-1] + b',"zzz":' + value + b"}"


def the_index_as_root(kit: Kit) -> MemoryBundle:
    """A cycle, as far as digests allow one: index.json points at itself as it was."""
    data = kit.bundle.files["index.json"]
    bundle = kit.bundle.with_blob(digest_of(data), data)
    return index(
        lambda document: document["manifests"][0].update(digest=digest_of(data), size=len(data))
    )(Kit(bundle, kit.ours, kit.stranger))


def pointing_at(role: str) -> Callable[[Kit], MemoryBundle]:
    def make(kit: Kit) -> MemoryBundle:
        digest = roles(kit.bundle)[role]
        return root(digest=digest, size=len(kit.bundle.blobs[digest]))(kit)

    return make


SPELLED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "a list": lambda data: b"[" + data + b"]",
    "cut": lambda data: data[:-1],
    "a second document": lambda data: data + data,
    "a byte behind": lambda data: data + b"\0",
    "a key twice": lambda data: data.replace(b"{", b'{"zzz":1,"zzz":1,', 1),
    "a key twice, once escaped": lambda data: data.replace(b"{", b'{"zzz":1,"\\u007azz":2,', 1),
    "a key twice, deeper": raw(b'[{"a":{"b":1,"b":2}}]'),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "a surrogate as bytes": raw(b'"\xed\xa0\x80"'),
    "not a number": raw(b"NaN"),
    "a number beyond floats": raw(b"1e999"),
    "a number of 5000 digits": raw(b"1" * 5000),
    "deep lists": raw(b"[" * 15_000 + b"]" * 15_000),
    "deep and cut": lambda data: b"[" * 2**14,
}

as_image = {"mediaType": MANIFEST}
countless_values = raw(b"[" + b"[]," * limits.INDEX_MARKS_MAX + b"0]")


POINTING: dict[str, tuple[str, Callable[[Kit], MemoryBundle]]] = {
    "schemaVersion 1": ("AOTC-E106", index(lambda d: d.update(schemaVersion=1))),
    "no schemaVersion": ("AOTC-E106", index(lambda d: d.pop("schemaVersion"))),
    "no manifests": ("AOTC-E106", index(lambda d: d.pop("manifests"))),
    "no entry": ("AOTC-E113", entries(lambda m: [])),
    "no root": ("AOTC-E113", entries(lambda m: m[1:])),
    "the root twice": ("AOTC-E113", entries(lambda m: [m[0], *m])),
    "two roots": ("AOTC-E113", entries(lambda m: [*m, entry(INDEX)])),
    "an unknown media type": ("AOTC-E113", entries(lambda m: [*m, entry("text/plain")])),
    "a media type in capitals": ("AOTC-E113", root(mediaType=INDEX.upper())),
    "an attestation that is nowhere": ("AOTC-E202", entries(lambda m: [*m, entry(MANIFEST)])),
    "countless attestations": (
        "AOTC-E111",
        entries(lambda m: [*m, *[m[1]] * limits.ATTESTATIONS_MAX]),
    ),
    "an attestation twice": ("AOTC-E113", entries(lambda m: [*m, m[1]])),
    "an attestation that is the root": ("AOTC-E113", entries(lambda m: [*m, m[0] | as_image])),
    "countless values": ("AOTC-E111", file("index.json", countless_values)),
    "a digest of another algorithm": ("AOTC-E106", root(digest="sha512:" + "0" * 128)),
    "a digest with a path": ("AOTC-E106", root(digest="sha256:../../etc/passwd")),
    "a size below zero": ("AOTC-E106", root(size=-1)),
    "a digest that is nowhere": ("AOTC-E114", root(digest=ZEROS)),
    "the root is a module": ("AOTC-E114", pointing_at("module")),
    "the root is the envelope": ("AOTC-E114", pointing_at("envelope")),
    "the root is index.json": ("AOTC-E114", the_index_as_root),
    "a root of another size": ("AOTC-E203", root(size=1)),
    "a root of 1 EiB": ("AOTC-E203", root(size=2**60)),
    "larger than its limit": (
        "AOTC-E111",
        file("index.json", lambda data: data.ljust(limits.INDEX_BYTES_MAX + 1)),
    ),
    "missing": ("AOTC-E110", lambda kit: kit.bundle.without("index.json")),
}


def version(value: Any) -> Callable[[bytes], bytes]:
    return lambda data: to_json({"imageLayoutVersion": value})


LAYOUTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "version 1.1.0": ("AOTC-E112", version("1.1.0")),
    "version 1.0.0 and a blank": ("AOTC-E112", version("1.0.0 ")),
    "a version in other digits": ("AOTC-E112", version("1.0.٠")),
    "a version that steers a terminal": ("AOTC-E112", version("\x1b[2J\nerror[AOTC-E000]: ok\r")),
    "larger than its limit": ("AOTC-E111", lambda data: data.ljust(limits.INDEX_BYTES_MAX + 1)),
}

LAYOUT: tuple[Case, ...] = (
    *(
        contents(f"index.json: {name}", "AOTC-E106", file("index.json", change))
        for name, change in SPELLED.items()
    ),
    *(contents(f"index.json: {name}", code, make) for name, (code, make) in POINTING.items()),
    *(
        contents(f"oci-layout: {name}", "AOTC-E106", file("oci-layout", SPELLED[name]))
        for name in ("empty", "cut", "a key twice", "a byte order mark", "deep and cut")
    ),
    *(
        contents(f"oci-layout: {name}", code, file("oci-layout", change))
        for name, (code, change) in LAYOUTS.items()
    ),
)
