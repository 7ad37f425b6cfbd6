"""Hashes weights that are copied between bundles once: where they are written.

Those that are not written are hashed in their source.
"""

from collections.abc import Collection

from aotc.base.errors import refusal
from aotc_runtime.base.digest import copy_of, sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.verification.bundle_contents import Contents, WeightsHashing


def sizes_of(source: BlobSource) -> dict[str, int]:
    """Map digests to sizes, for blobs that are not hashed yet.

    They are the `unread` of `aotc_runtime.verification.bundle_contents.begin_contents`.
    """
    return {digest: len(source.blob(digest) or b"") for digest in source.digests()}


def unmodified(source: BlobSource, digest: str) -> bytes:
    """Return a document hashed before, or raise IntegrityError (AOTC-E201) if it was modified."""
    data = copy_of(source.blob(digest) or b"")
    if sha256(data) != digest:
        raise refusal("AOTC-E201", f"{source.name} {digest}", sha256(data), expected=digest)
    return data


def hash_rest(source: BlobSource, contents: Contents, written: Collection[str]) -> None:
    """Hash the weights that were not `written` anywhere. Raises IntegrityError (AOTC-E201)."""
    weights = {
        layer.digest: source.blob(layer.digest) or memoryview(b"")
        for image in contents.targets.values()
        for layer in image.layers
        if layer.mediaType == oci_layout.WEIGHTS_TYPE and layer.digest not in written
    }
    WeightsHashing(source, weights).finish()
