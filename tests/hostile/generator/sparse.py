"""Bundles of two targets from which something is missing, but not one target as a whole."""

from collections.abc import Callable

from ..tampering import MemoryBundle, two_targets
from .case import Case, Kit, contents

type Digests = dict[str, str]


def without(choose: Callable[[Digests, Digests], tuple[str, ...]]) -> Callable[[Kit], MemoryBundle]:
    """A bundle without these blobs; which, of the digests of the first and the second target."""

    def make(kit: Kit) -> MemoryBundle:
        bundle, first, second = two_targets(kit.documents(), kit.ours)
        for digest in choose(first, second):
            bundle = bundle.without(digest)
        return bundle

    return make


MISSING: dict[str, tuple[str, Callable[[Digests, Digests], tuple[str, ...]]]] = {
    "an image manifest, and nothing of what it reached": ("AOTC-E204", lambda a, b: (b["image"],)),
    "a target's documents, but not its executable": (
        "AOTC-E204",
        lambda a, b: (b["image"], b["config"]),
    ),
    "a target but for its bundle manifest": (
        "AOTC-E204",
        lambda a, b: (b["image"], b["executable"]),
    ),
    "an executable of a target that is there": ("AOTC-E202", lambda a, b: (b["executable"],)),
    "a bundle manifest of a target that is there": ("AOTC-E202", lambda a, b: (b["config"],)),
    "all image manifests": ("AOTC-E202", lambda a, b: (a["image"], b["image"])),
    "all targets as a whole": ("AOTC-E202", lambda a, b: (*a.values(), *b.values())),
    "a target as a whole, and an executable of the other": (
        "AOTC-E202",
        lambda a, b: (*b.values(), a["executable"]),
    ),
}

SPARSE: tuple[Case, ...] = tuple(
    contents(f"missing: {name}", code, without(choose)) for name, (code, choose) in MISSING.items()
)
