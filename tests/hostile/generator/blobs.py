"""Blobs that are changed, cut, missing, swapped or too many."""

import itertools
from collections.abc import Callable

from ..tampering import ROLES, MemoryBundle, digest_of, flipped, put_together, roles, swap_layer
from .case import Case, Kit, contents

CHANGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "with a flipped bit": ("AOTC-E201", flipped),
    "with another first byte": ("AOTC-E201", lambda data: flipped(data, 0)),
    "with another last byte": ("AOTC-E201", lambda data: flipped(data, len(data) - 1)),
    "of zeros": ("AOTC-E201", lambda data: bytes(len(data))),
    "cut by a byte": ("AOTC-E203", lambda data: data[:-1]),
    "longer by a byte": ("AOTC-E203", lambda data: data + b"\0"),
    "empty": ("AOTC-E203", lambda data: b""),
}
LAYERS = ("weights", "module", "executable", "fixture")


def blob(role: str, change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    def make(kit: Kit) -> MemoryBundle:
        digest = roles(kit.bundle)[role]
        return kit.bundle.with_blob(digest, change(kit.bundle.blobs[digest]))

    return make


def missing(role: str) -> Callable[[Kit], MemoryBundle]:
    return lambda kit: kit.bundle.without(roles(kit.bundle)[role])


def swapped(kit: Kit) -> MemoryBundle:
    """Two blobs of one size, which only their digests tell apart."""
    pairs = itertools.combinations(sorted(kit.bundle.blobs.items()), 2)
    one, two = next((a, b) for (a, x), (b, y) in pairs if len(x) == len(y))
    bundle = kit.bundle.with_blob(one, kit.bundle.blobs[two])
    return bundle.with_blob(two, kit.bundle.blobs[one])


def redigested(role: str) -> Callable[[Kit], MemoryBundle]:
    """Changed and every digest put right up to the root, which is then not what was signed."""

    def make(kit: Kit) -> MemoryBundle:
        documents = kit.documents()
        digest = roles(kit.bundle)[role]
        swap_layer(documents, digest, flipped(kit.bundle.blobs[digest]))
        return put_together(documents)

    return make


def surplus(digest: str, data: bytes) -> Callable[[Kit], MemoryBundle]:
    return lambda kit: kit.bundle.with_blob(digest, data)


def weights_twice(kit: Kit) -> MemoryBundle:
    data = kit.bundle.blobs[roles(kit.bundle)["weights"]]
    return kit.bundle.with_blob("sha256:" + "0" * 64, data)


BLOBS: tuple[Case, ...] = (
    *(
        contents(f"{role} {how}", code, blob(role, change))
        for role in ROLES
        for how, (code, change) in CHANGES.items()
        if (role, how) != ("empty config", "with another last byte")  # its middle one
    ),
    *(contents(f"{role} missing", "AOTC-E202", missing(role)) for role in ROLES),
    contents("two blobs that changed places", "AOTC-E201", swapped),
    *(contents(f"{role} redigested", "AOTC-E305", redigested(role)) for role in LAYERS),
    contents("a blob that nobody names", "AOTC-E204", surplus(digest_of(b"x"), b"x")),
    contents("an empty blob that nobody names", "AOTC-E204", surplus(digest_of(b""), b"")),
    contents("a blob under a digest not its own", "AOTC-E204", surplus("sha256:" + "1" * 64, b"x")),
    contents("the weights under a second digest", "AOTC-E204", weights_twice),
)
