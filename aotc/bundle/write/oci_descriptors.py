"""References to documents of an OCI layout, from their bytes."""

from __future__ import annotations

from typing import Any

from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout


def descriptor(data: bytes, media_type: str, **extra: Any) -> oci_layout.Descriptor:
    """A reference to these bytes."""
    return oci_layout.Descriptor(mediaType=media_type, digest=sha256(data), size=len(data), **extra)


def entry_descriptor(entry: oci_layout.Entry, artifact_type: str = "") -> oci_layout.Descriptor:
    """The reference that an entry of index.json is."""
    return oci_layout.Descriptor(
        mediaType=entry.mediaType,
        digest=entry.digest,
        size=entry.size,
        artifactType=artifact_type,
    )


def image_descriptor(data: bytes, **extra: Any) -> oci_layout.ImageDescriptor:
    """A reference to the image manifest of a target."""
    return oci_layout.ImageDescriptor(
        mediaType=oci_layout.MANIFEST_TYPE, digest=sha256(data), size=len(data), **extra
    )


def config_descriptor(data: bytes) -> oci_layout.ConfigDescriptor:
    """A reference to a bundle manifest."""
    return oci_layout.ConfigDescriptor(
        mediaType=oci_layout.CONFIG_TYPE, digest=sha256(data), size=len(data)
    )


def envelope_descriptor(data: bytes) -> oci_layout.EnvelopeDescriptor:
    """A reference to a DSSE envelope."""
    return oci_layout.EnvelopeDescriptor(
        mediaType=oci_layout.ATTESTATION_TYPE, digest=sha256(data), size=len(data)
    )
