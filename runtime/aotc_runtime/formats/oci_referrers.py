"""OCI 1.1 referrers: manifests that attach a document to a root, as loads never write them."""

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Entry


def describe(data: bytes, media_type: str) -> Descriptor:
    """Return a reference to these bytes."""
    return Descriptor(mediaType=media_type, digest=sha256(data), size=len(data))


def referrer_of(data: bytes, kind: str, root: Entry | Descriptor, **more: object) -> bytes:
    """Return the manifest that attaches a document of this media type to a root."""
    subject = Descriptor(mediaType=root.mediaType, digest=root.digest, size=root.size)
    return canonical_json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci_layout.MANIFEST_TYPE,
            "artifactType": kind,
            "config": describe(oci_layout.EMPTY_BLOB, oci_layout.EMPTY_TYPE),
            "layers": [describe(data, kind)],
            "subject": subject,
            **more,
        }
    )
